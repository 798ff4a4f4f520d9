"""What an operator sees of a migration: never a token, an id or a document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import field, frozen

from migronaut.core.ports import LiveLease
from migronaut.core.progress import Progress, progress_of
from migronaut.core.state import BackgroundState, Counters, DocumentError, HistoryEntry, Partition, PartitionStatus
from migronaut.engine.closing import rolled
from migronaut.engine.ports import Ports
from migronaut.engine.states import required
from migronaut.engine.work import current_pass


@frozen(kw_only=True)
class BackgroundStatus:
    """One migration at one moment.

    Args:
        totals: All that was counted so far, of all passes.
        left_out: Documents that could not be migrated.
        partitions: How many there are in each status, of the current plan.
        progress: Of the current pass.
    """

    name: str
    description: str
    collection: str
    status: str
    phase: str
    direction: str
    pass_number: int
    generation: int
    totals: Counters
    left_out: int
    partitions: Mapping[str, int] = field(factory=dict)
    leases: tuple[LiveLease, ...] = ()
    max_parallel: int = 1
    requires: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    plan_method: str | None = None
    degraded: str | None = None
    registered_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_error: str | None = None
    errors: tuple[DocumentError, ...] = ()
    reopened: int = 0
    history: tuple[HistoryEntry, ...] = ()
    progress: Progress


def status_of(ports: Ports, name: str, *, rate: float | None = None) -> BackgroundStatus:
    """Look at one migration.

    Args:
        rate: Documents per second, as observed by a caller who looks again and again.

    Raises:
        NotRegisteredError: There is no such migration.
    """
    state = required(ports.store, name)
    partitions = ports.store.partitions(current_pass(state)) if state.plan else ()
    whole = rolled(state, partitions)
    return BackgroundStatus(
        name=state.name,
        description=state.description,
        collection=state.spec.collection,
        status=state.status,
        phase=state.phase,
        direction=state.direction,
        pass_number=state.pass_number,
        generation=state.generation,
        totals=whole.totals,
        left_out=whole.left_out,
        partitions=_by_status(partitions),
        leases=ports.store.leases(name),
        max_parallel=state.spec.max_parallel,
        requires=state.requires,
        waits_for=state.waits_for,
        plan_method=state.plan.method if state.plan else None,
        degraded=state.plan.degraded if state.plan else None,
        registered_at=state.registered_at,
        started_at=state.started_at,
        finished_at=state.finished_at,
        last_error=state.last_error,
        errors=whole.errors,
        reopened=state.reopened,
        history=state.history,
        progress=_progress(state, partitions, ports.store.now(), rate),
    )


def _by_status(partitions: tuple[Partition, ...]) -> dict[str, int]:
    return {status: sum(each.status is status for each in partitions) for status in PartitionStatus}


def _progress(state: BackgroundState, partitions: tuple[Partition, ...], now: datetime, rate: float | None) -> Progress:
    """Of the current pass; its counters are in the partitions until it is closed, then in the totals."""
    scanned = sum(partition.counters.scanned for partition in partitions)
    started = state.plan.made_at if state.plan else now
    return progress_of(
        status=state.status,
        done=scanned if partitions else state.totals.scanned,
        estimate=state.plan.estimate if state.plan else None,
        at_least=state.plan is not None and state.plan.at_least,
        rate=rate,
        elapsed=((state.finished_at or now) - started).total_seconds(),
    )
