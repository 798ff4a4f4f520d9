"""The ports as one process sees them: before and after each call the scheduler may let anything happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from migronaut.core.ports import (
    PortError,
    Stop,
    TookTooLongError,
    UnavailableError,
    WriteConflictError,
    WriteTooSlowError,
)
from migronaut.engine.stopping import StopEvent
from migronaut.simulation.actor import Actor
from migronaut.simulation.faults import Event
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
        "documents.rewrite",
        "documents.rewrite_fenced",
        "documents.write_same",
        "documents.write_guarded",
        "store.checkpoint",
        "store.claim",
    }
)
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


class _Proxy:
    def __init__(self, port: object, name: str, scheduler: Scheduler, watch: Watch) -> None:
        self._port = port
        self._name = name
        self._scheduler = scheduler
        self._watch = watch

    def __getattr__(self, method: str) -> Any:
        target = getattr(self._port, method)
        call = target if method in _SILENT else self._wrapped(target, f"{self._name}.{method}")
        setattr(self, method, call)
        return call

    def _wrapped(self, target: Callable[..., Any], point: str) -> Callable[..., Any]:
        scheduler, watch = self._scheduler, self._watch
        before, after = f"{point}?", f"{point}!"
        documents, failures = point in _BY_LANES, _FAILURES.get(point, (UnavailableError,))
        repeatable = point in _REPEATABLE

        def call(*args: Any, **kwargs: Any) -> Any:
            happened = scheduler.point(before, documents=documents)
            if happened is Event.FAIL:
                failure = failures[scheduler.decisions.choose(len(failures))]
                raise failed(scheduler, "before", failure)
            if scheduler.away_until > scheduler.now:
                raise failed(scheduler, "before")
            told = watch(point, args, kwargs)
            result = target(*args, **kwargs)
            if told is not None:
                told(result)
            if happened is Event.REPEAT and repeatable:
                scheduler.seen["call repeated"] += 1
                result = target(*args, **kwargs)
            if scheduler.point(after, documents=documents) is Event.FAIL:
                raise failed(scheduler, "after")
            return result

        return call


def failed(scheduler: Scheduler, when: str, failure: type[PortError] = UnavailableError) -> PortError:
    """The failure of a call, noted."""
    scheduler.seen[f"failed {when} its effect"] += 1
    return failure(f"the simulation let the call fail {when} its effect")


def proxied(port: Port, name: str, scheduler: Scheduler, watch: Watch) -> Port:
    """A port whose calls the scheduler may switch, fail and crash around."""
    return cast(Port, _Proxy(port, name, scheduler, watch))


class SimulatedClock:
    """The clock of the engine: sleeping lets others run."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._scheduler.now

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Let others run for ``seconds``, or until ``stop`` is set."""
        self._scheduler.sleep(seconds, stop)


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
