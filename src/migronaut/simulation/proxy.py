"""The ports as one process sees them: before and after each call the scheduler may let anything happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from attrs import frozen

from migronaut.core.ports import (
    PortError,
    Stop,
    TookTooLongError,
    UnavailableError,
    WriteConflictError,
    WriteTooSlowError,
)
from migronaut.engine.stopping import StopEvent
from migronaut.memory.durability import Durability, Mark
from migronaut.simulation.actor import Actor
from migronaut.simulation.driver import Driver, Lost
from migronaut.simulation.faults import Event, Where
from migronaut.simulation.scheduler import Scheduler

Port = TypeVar("Port")
Watch = Callable[[str, tuple[Any, ...], Mapping[str, Any]], Callable[[Any], None] | None]
"""Told of a call just before its effect; what it returns is told the result just after. Nobody else runs in between,
unless the call itself has points inside."""

_SILENT = frozenset({"now", "transactions", "indexed", "condition", "acknowledges", "refusal_of"})
"""Calls that need no point of their own: they change nothing and cannot fail in a way that matters."""
_BY_LANES = frozenset(
    {
        "documents.read",
        "documents.read_ids",
        "documents.fetch",
        "documents.fetch_ids",
        "documents.still_matching",
        "documents.rewrite",
        "documents.rewrite_fenced",
        "documents.write_same",
        "documents.write_guarded",
        "store.checkpoint",
        "store.claim",
        "store.holds",
    }
)
_BY_COORDINATORS = frozenset(
    {"documents.count", "locks.acquire", "store.drop_before", "store.leases", "store.partitions", "store.save"}
)
_WHERE = dict.fromkeys(_BY_LANES, Where.DOCUMENTS) | dict.fromkeys(_BY_COORDINATORS, Where.DECISIONS)
_FAILURES: Mapping[str, tuple[type[PortError], ...]] = {
    "documents.write_same": (UnavailableError, WriteConflictError, WriteTooSlowError),
    "documents.rewrite": (UnavailableError, WriteTooSlowError),
    "documents.rewrite_fenced": (UnavailableError, WriteConflictError, WriteTooSlowError),
    "documents.sample": (UnavailableError, TookTooLongError),
}
"""What a call may fail with before its effect, where it is not only that nobody answers."""
_REPEATABLE = frozenset(
    {
        "documents.write_guarded",
        "locks.renew",
        "store.drop_before",
        "store.drop_plan",
        "store.release",
        "store.renew",
        "store.reset_partitions",
        "tickets.extend",
        "tickets.sent",
    }
)
"""What a driver, or a caller, may send twice. The others are retried under a transaction number: once."""


@frozen(kw_only=True)
class Surroundings:
    """What a port is called in.

    Args:
        watch: Told of each call.
        driver: What becomes of a call when the primary is lost.
        stubborn: Raises what a call always raises, if there is one such call.
    """

    scheduler: Scheduler
    durability: Durability
    watch: Watch
    driver: Driver
    stubborn: Callable[[str], None]


class _Proxy:
    def __init__(self, port: object, name: str, surroundings: Surroundings) -> None:
        self._port = port
        self._name = name
        self._surroundings = surroundings

    def __getattr__(self, method: str) -> Any:
        target = getattr(self._port, method)
        call = target if method in _SILENT else self._wrapped(target, f"{self._name}.{method}")
        setattr(self, method, call)
        return call

    def _wrapped(self, target: Callable[..., Any], point: str) -> Callable[..., Any]:
        here = self._surroundings
        scheduler, watch, durability = here.scheduler, here.watch, here.durability
        before, after, again = f"{point}?", f"{point}!", f"{point}~"
        where, failures = _WHERE.get(point, Where.ANYWHERE), _FAILURES.get(point, (UnavailableError,))
        repeatable = point in _REPEATABLE

        def call(*args: Any, **kwargs: Any) -> Any:
            """The call with its points before and after."""
            happened = scheduler.point(before, where)
            if happened is Event.FAIL:
                failure = failures[scheduler.decisions.choose(len(failures))]
                raise failed(scheduler, "before", failure)
            here.stubborn(point)
            waits = here.driver.waits(point, kwargs)
            while True:
                if scheduler.away_until > scheduler.now:
                    raise failed(scheduler, "before")
                told = watch(point, args, kwargs)
                begins(scheduler, durability)
                result = target(*args, **kwargs)
                if told is not None:
                    told(result)
                if happened is Event.REPEAT and repeatable:
                    scheduler.seen["call repeated"] += 1
                    result = target(*args, **kwargs)
                mark = ends(scheduler, durability)
                if scheduler.point(after, where) is Event.FAIL:
                    raise failed(scheduler, "after")
                if not waits or acknowledged(scheduler, durability, mark):
                    return result
                sent_again(scheduler, point)
                scheduler.point(again, where)

        return call


def begins(scheduler: Scheduler, durability: Durability) -> None:
    """Note which primary a call is sent to."""
    if not scheduler.atomic:  # a heartbeat, which leaves the call at hand alone
        scheduler.current.term, scheduler.current.committed = durability.term, None


def ends(scheduler: Scheduler, durability: Durability) -> Mark:
    """Up to where a majority must have what a call has written, and all before it."""
    committed = None if scheduler.atomic else scheduler.current.committed
    return committed or durability.mark()


def acknowledged(scheduler: Scheduler, durability: Durability, mark: Mark) -> bool:
    """Wait until a majority has it; False when it was undone.

    Raises:
        UnavailableError: A heartbeat waits for nothing.
    """
    if scheduler.lags_until > scheduler.now:
        if scheduler.atomic:
            raise failed(scheduler, "after")
        scheduler.sleep(scheduler.lags_until - scheduler.now)
    return durability.acknowledge(mark)


def sent_again(scheduler: Scheduler, point: str) -> None:
    """Let a call whose write was undone go on with the new primary, if the driver does that.

    Raises:
        PortError: It does not.
    """
    scheduler.seen["write undone before its acknowledgement"] += 1
    lost = Driver.lost(point)
    if lost is Lost.CONFLICT:
        raise WriteConflictError("the simulation lost the primary, and the transaction with it")
    if lost is Lost.UNAVAILABLE:
        raise failed(scheduler, "after")


def failed(scheduler: Scheduler, when: str, failure: type[PortError] = UnavailableError) -> PortError:
    """The failure of a call, noted."""
    scheduler.seen[f"failed {when} its effect"] += 1
    return failure(f"the simulation let the call fail {when} its effect")


def proxied(port: Port, name: str, surroundings: Surroundings) -> Port:
    """A port whose calls the scheduler may switch, fail and crash around."""
    return cast(Port, _Proxy(port, name, surroundings))


class SimulatedClock:
    """The clock of the engine: sleeping lets others run.

    Args:
        least: Seconds that any sleep takes.
    """

    def __init__(self, scheduler: Scheduler, *, least: float = 0.0) -> None:
        self._scheduler = scheduler
        self._least = least

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._scheduler.now

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Let others run for ``seconds``, or until ``stop`` is set."""
        self._scheduler.sleep(max(seconds, self._least), stop)


class SimulatedHeartbeat:
    """Renews when the clock passes a beat, as long as its process is neither frozen nor gone."""

    def __init__(self, scheduler: Scheduler, actor: Callable[[], Actor]) -> None:
        self._scheduler = scheduler
        self._actor = actor

    @contextmanager
    def beating(self, renew: Callable[[], bool], *, ttl: float) -> Iterator[Stop]:
        """Keep a right while the block runs."""
        lost = StopEvent()
        timeline = self._scheduler.timeline
        beat = timeline.keep(self._actor(), renew, ttl=ttl, lose=lost.set)
        try:
            yield lost
        finally:
            timeline.forget(beat)
