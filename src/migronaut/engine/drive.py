"""Driving migrations to their end in this process, without a queue: coordinate, work lanes as threads, again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from attrs import define, field, frozen

from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.lane import Again, Outcome, after_slice
from migronaut.core.ports import Owner, Stop
from migronaut.core.state import Counters, Status
from migronaut.engine.engine import Engine
from migronaut.engine.patience import patiently
from migronaut.engine.stopping import AnyStop, StopEvent

_LOOK = 1.0
"""Seconds between two looks at what waits."""
_OTHERS_WORK = Wait(reason="lanes of other processes hold all that is left", retry_after=_LOOK)


@frozen(kw_only=True)
class Own:
    """What this process did for one migration; other processes may have done the rest.

    Args:
        migrated: Documents.
        seconds: How long its lanes were at work; waiting does not count.
    """

    migrated: int = 0
    seconds: float = 0.0

    def __add__(self, other: Own) -> Own:
        return Own(migrated=self.migrated + other.migrated, seconds=self.seconds + other.seconds)


@frozen(kw_only=True)
class Driven:
    """How a drive of several migrations ended.

    Args:
        held: Those that somebody has to put right first, each with what it waits for.
        own: What this process did for each.
    """

    held: Mapping[str, Wait]
    own: Mapping[str, Own]


def drive_all(
    engine: Engine,
    names: Sequence[str],
    *,
    owner: Owner,
    stop: Stop,
    lanes: int = 1,
    more: Callable[[], Iterable[str]] = tuple,
) -> Driven:
    """Work several migrations to their end, in turn: one that has to wait does not hold up the others.

    Ends early for a migration that somebody has to put right first, for example its file on this machine, and for
    one that waits for such a migration or for one that will not come by itself.

    Args:
        more: Asked in every round for further ones; a name that is known already changes nothing.

    Raises:
        UnavailableError: No primary answered for a minute.
    """
    driving = _Drive(engine, owner=owner, stop=stop, lanes=lanes)
    known = dict.fromkeys(names)
    while not stop.is_set():
        left = [name for name in known if not driving.is_over(name)]
        if not left:
            break
        for name in left:
            driving.work(name)
        known |= dict.fromkeys(more())
        if any(name not in driving.over for name in known):
            engine.ports.clock.sleep(_LOOK, stop)
    return Driven(held=driving.held, own=driving.own)


@define
class _Drive:
    engine: Engine
    owner: Owner = field(kw_only=True)
    stop: Stop = field(kw_only=True)
    lanes: int = field(kw_only=True)
    held: dict[str, Wait] = field(init=False, factory=dict)
    own: dict[str, Own] = field(init=False, factory=dict)
    over: dict[str, Status | None] = field(init=False, factory=dict)
    """Those that are not worked here any more, and how they ended."""

    def is_over(self, name: str) -> bool:
        """Whether there is nothing to do for it here; one that completed may have been reopened since."""
        if self.over.get(name) is not Status.COMPLETED:
            return name in self.over
        state = self.engine.ports.store.load(name)
        if state is None or state.status is not Status.RUNNING:
            return True
        del self.over[name]
        return False

    def work(self, name: str) -> None:
        """Work one as far as it goes now."""
        found, own = _advance(self.engine, name, owner=self.owner, stop=self.stop, lanes=self.lanes)
        self.own[name] = self.own.get(name, Own()) + own
        if not isinstance(found, Wait):
            self.over[name] = found
        elif found.for_operator or self._awaits_in_vain(found):
            self.held[name] = found
            self.over[name] = None

    def _awaits_in_vain(self, waiting: Wait) -> bool:
        """Whether nobody here works any more what it waits for."""
        return any(each.name in self.over and self.over[each.name] is None for each in waiting.awaits)


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
    found, _ = _advance(engine, name, owner=owner, stop=stop, lanes=lanes)
    return found


def _advance(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int) -> tuple[Status | Wait | None, Own]:
    clock, own = engine.ports.clock, Own()
    while not stop.is_set():
        match patiently(lambda: engine.coordinate(name, owner=owner, stop=stop), name=name, clock=clock, stop=stop):
            case Done(status=status):
                return status, own
            case Wait() as waiting:
                return waiting, own
            case Process(lanes=0):
                return _OTHERS_WORK, own
            case Process(lanes=free):
                began = clock.monotonic()
                counters = _work_lanes(engine, name, owner=owner, stop=stop, lanes=min(lanes, free))
                own += Own(migrated=counters.migrated, seconds=clock.monotonic() - began)
    return None, own


def _work_lanes(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int) -> Counters:
    """What the lanes of this process did, all together."""
    if lanes == 1:
        return _work_lane(engine, name, owner=owner, stop=stop)
    broken = StopEvent()
    either = AnyStop(stop, broken)
    with ThreadPoolExecutor(lanes, thread_name_prefix="migronaut-lane") as pool:
        work = [pool.submit(_work_lane, engine, name, owner=owner, stop=either) for _ in range(lanes)]
        try:
            return sum((each.result() for each in work), Counters())
        except BaseException:
            broken.set("a lane was interrupted")  # the pool waits for the others
            raise


def _work_lane(engine: Engine, name: str, *, owner: Owner, stop: Stop) -> Counters:
    """One lane: slice after slice until nothing is left for it."""
    failures, done = 0, Counters()
    while not stop.is_set():
        result = engine.run_slice(name, owner=owner, stop=stop, run=owner.name, attempt=failures)
        done += result.counters
        decision = after_slice(result, failures=failures, stopping=False)
        # A lane without a slot would hold up its neighbours, and the end, for half a lease; one without its file for
        # ever, where only the coordinator knows whether to wait.
        if not isinstance(decision, Again) or result.outcome in (Outcome.BUSY, Outcome.WAITING):
            break
        failures = decision.failures
        engine.ports.clock.sleep(decision.delay, stop)
    return done
