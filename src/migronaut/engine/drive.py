"""Driving a migration to its end in this process, without a queue: coordinate, work lanes as threads, again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.lane import Again, Outcome, after_slice
from migronaut.core.ports import Owner, Stop
from migronaut.core.state import Status
from migronaut.engine.engine import Engine
from migronaut.engine.patience import patiently

_OTHERS_WORK = 1.0
"""Seconds between two looks while lanes of other processes hold all that is left."""


def drive(engine: Engine, name: str, *, owner: Owner, stop: Stop, lanes: int = 1) -> Status | None:
    """Work a migration until it ends or ``stop`` is set.

    Args:
        lanes: Threads of this process that work at the same time; the migration's ``max_parallel``
            bounds them together with those of other processes.

    Returns:
        The status it ended in; None when stopped (or not registered).

    Raises:
        UnavailableError: No primary answered for a minute.
    """
    clock = engine.ports.clock
    while not stop.is_set():
        match patiently(lambda: engine.coordinate(name, owner=owner, stop=stop), name=name, clock=clock, stop=stop):
            case Done(status=status):
                return status
            case Wait(retry_after=seconds):
                clock.sleep(seconds, stop)
            case Process(lanes=0):
                clock.sleep(_OTHERS_WORK, stop)
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
        # A lane without a slot would hold up its neighbours, and the end, for half a lease.
        if not isinstance(decision, Again) or result.outcome is Outcome.BUSY:
            return
        failures = decision.failures
        engine.ports.clock.sleep(decision.delay, stop)
