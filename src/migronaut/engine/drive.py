"""Driving a migration to its end in this process, without a queue: coordinate, work lanes as threads, again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.lane import Again, Outcome, after_slice
from migronaut.core.ports import Owner, Stop
from migronaut.core.state import BackgroundState, Status
from migronaut.engine.engine import Engine
from migronaut.engine.patience import patiently
from migronaut.engine.stopping import AnyStop, StopEvent

_BROKEN = (Status.FAILED, Status.CANCELLED)
_LOOK = 1.0
"""Seconds between two looks at what waits."""
_OTHERS_WORK = Wait(reason="lanes of other processes hold all that is left", retry_after=_LOOK)


def drive_all(engine: Engine, names: Sequence[str], *, owner: Owner, stop: Stop, lanes: int = 1) -> Mapping[str, str]:
    """Work several migrations to their end, in turn: one that has to wait does not hold up the others.

    Ends early for a migration that somebody has to put right first, for example its file on this machine, and for
    one that waits for such a migration or for one which has failed or was cancelled.

    Returns:
        The migrations that somebody has to put right first, each with what is wrong and what to do.

    Raises:
        UnavailableError: No primary answered for a minute.
    """
    held: dict[str, str] = {}
    over: set[str] = set()
    left = list(names)
    while left and not stop.is_set():
        for name in left:
            if _is_over(engine, name, held, over, owner=owner, stop=stop, lanes=lanes):
                over.add(name)
        left = [name for name in left if name not in over]
        if left:
            engine.ports.clock.sleep(_LOOK, stop)
    return held


def _is_over(
    engine: Engine, name: str, held: dict[str, str], over: Set[str], *, owner: Owner, stop: Stop, lanes: int
) -> bool:
    """Work one as far as it goes now; True when it has ended, is held (and added to those), or cannot begin."""
    found = advance(engine, name, owner=owner, stop=stop, lanes=lanes)
    if isinstance(found, Wait) and found.for_operator:
        held[name] = found.reason
        return True
    load = engine.ports.store.load
    state = load(name)
    if state is None or state.status is not Status.BLOCKED:
        return state is None or isinstance(found, Status)
    required = [load(each) for each in state.requires]
    return any(each is not None and _will_not_complete(each, over) for each in required)


def _will_not_complete(state: BackgroundState, over: Set[str]) -> bool:
    """Whether nobody here works it any more, and it is not through."""
    return state.status in _BROKEN or (state.name in over and state.status is not Status.COMPLETED)


def drive(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int = 1) -> Status | None:
    """Work a migration until it ends or ``stop`` is set; wait while there is nothing to do.

    Args:
        lanes: See ``advance``.

    Returns:
        The status it ended in; None when stopped (or not registered).

    Raises:
        UnavailableError: No primary answered for a minute.
    """
    while isinstance(found := advance(engine, name, owner=owner, stop=stop, lanes=lanes), Wait):
        engine.ports.clock.sleep(found.retry_after, stop)
    return found


def advance(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int = 1) -> Status | Wait | None:
    """Work a migration as far as it goes now.

    Args:
        lanes: Threads of this process that work at the same time; the migration's ``max_parallel``
            bounds them together with those of other processes.

    Returns:
        The status it ended in, or what it waits for; None when stopped (or not registered).

    Raises:
        UnavailableError: No primary answered for a minute.
    """
    clock = engine.ports.clock
    while not stop.is_set():
        match patiently(lambda: engine.coordinate(name, owner=owner, stop=stop), name=name, clock=clock, stop=stop):
            case Done(status=status):
                return status
            case Wait() as waiting:
                return waiting
            case Process(lanes=0):
                return _OTHERS_WORK
            case Process(lanes=free):
                _work_lanes(engine, name, owner=owner, stop=stop, lanes=min(lanes, free))
    return None


def _work_lanes(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int) -> None:
    if lanes == 1:
        _work_lane(engine, name, owner=owner, stop=stop)
        return
    broken = StopEvent()
    either = AnyStop(stop, broken)
    with ThreadPoolExecutor(lanes, thread_name_prefix="migronaut-lane") as pool:
        work = [pool.submit(_work_lane, engine, name, owner=owner, stop=either) for _ in range(lanes)]
        try:
            for each in work:
                each.result()
        except BaseException:
            broken.set("a lane was interrupted")  # the pool waits for the others
            raise


def _work_lane(engine: Engine, name: str, *, owner: Owner, stop: Stop) -> None:
    """One lane: slice after slice until nothing is left for it."""
    failures = 0
    while not stop.is_set():
        result = engine.run_slice(name, owner=owner, stop=stop, run=owner.name, attempt=failures)
        decision = after_slice(result, failures=failures, stopping=False)
        # A lane without a slot would hold up its neighbours, and the end, for half a lease; one without its file for
        # ever, where only the coordinator knows whether to wait.
        if not isinstance(decision, Again) or result.outcome in (Outcome.BUSY, Outcome.WAITING):
            return
        failures = decision.failures
        engine.ports.clock.sleep(decision.delay, stop)
