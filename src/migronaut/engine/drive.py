"""Driving a migration to its end in this process, without a queue: coordinate, work lanes as threads, again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.lane import Again, Outcome, after_slice
from migronaut.core.ports import Owner, Stop
from migronaut.core.state import Status
from migronaut.engine.engine import Engine
from migronaut.engine.patience import patiently

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
    left = list(names)
    while left and not stop.is_set():
        left = [name for name in left if not _is_over(engine, name, held, owner=owner, stop=stop, lanes=lanes)]
        if left:
            engine.ports.clock.sleep(_LOOK, stop)
    return held


def _is_over(engine: Engine, name: str, held: dict[str, str], *, owner: Owner, stop: Stop, lanes: int) -> bool:
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
    return any(each is not None and (each.status in _BROKEN or each.name in held) for each in required)


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
    with ThreadPoolExecutor(lanes, thread_name_prefix="migronaut-lane") as pool:
        work = [pool.submit(_work_lane, engine, name, owner=owner, stop=stop) for _ in range(lanes)]
        for each in work:
            each.result()


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
