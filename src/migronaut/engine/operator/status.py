"""What an operator sees of a migration: never a token, an id or a document."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from attrs import field, frozen

from migronaut.core.coordinator import FileFact, closed, file_notice
from migronaut.core.order import Awaited
from migronaut.core.ports import LiveLease
from migronaut.core.progress import Progress, progress_of
from migronaut.core.state import (
    TERMINAL,
    BackgroundState,
    Counters,
    DocumentError,
    HistoryEntry,
    Partition,
    PartitionStatus,
)
from migronaut.engine.coordinator.closing import rolled
from migronaut.engine.coordinator.requirements import unended
from migronaut.engine.ports import Ports
from migronaut.engine.sources import find_source
from migronaut.engine.states import required
from migronaut.engine.work import current_pass

_MAX_SHOWN = 20


@frozen(kw_only=True)
class PartitionError:
    """What a partition raised last, as it may be shown.

    Args:
        partition: Its sequence number in the plan.
        failures: How often in a row it raised.
        failed: It was given up.
    """

    partition: int
    failures: int
    failed: bool
    message: str


@frozen(kw_only=True)
class BackgroundStatus:
    """One migration at one moment.

    Args:
        by_pipeline: The server rewrites the documents itself.
        totals: All that was counted so far, of all passes.
        left_out: Documents that could not be migrated.
        partitions: How many there are in each status, of the current plan.
        file: What lies on this machine for it: ``ok``, ``changed``, ``missing`` or ``unusable``.
        notice: What an operator should know and do about the file; None when it is fine.
        note: What an operator should know of the collection; None when there is nothing.
        partition_errors: Partitions that raised in their last slice, or were given up.
        waits_for: Migrations that must be through before it begins, or completes.
        awaited: The same with what is the matter with each.
        progress: Of the whole migration.
    """

    name: str
    description: str
    collection: str
    by_pipeline: bool = False
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
    awaited: tuple[Awaited, ...] = ()
    plan_method: str | None = None
    degraded: str | None = None
    registered_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_error: str | None = None
    errors: tuple[DocumentError, ...] = ()
    partition_errors: tuple[PartitionError, ...] = ()
    file: str = FileFact.OK
    notice: str | None = None
    note: str | None = None
    reopened: int = 0
    history: tuple[HistoryEntry, ...] = ()
    progress: Progress


def status_of(ports: Ports, name: str, *, rate: float | None = None, attended: bool = False) -> BackgroundStatus:
    """Look at one migration.

    Args:
        rate: Documents per second, as observed by a caller who looks again and again.
        attended: The caller works it, also at a moment at which no lane does.

    Raises:
        NotRegisteredError: There is no such migration.
    """
    state = required(ports.store, name)
    partitions = ports.store.partitions(current_pass(state)) if state.plan else ()
    whole = rolled(state, partitions)
    leases = ports.store.leases(name)
    found = find_source(ports.catalog, state)
    awaited = () if state.status in TERMINAL else unended(ports, state, partitions)
    return BackgroundStatus(
        name=state.name,
        description=state.description,
        collection=state.spec.collection,
        by_pipeline=state.spec.by_pipeline(state.direction),
        status=state.status,
        phase=state.phase,
        direction=state.direction,
        pass_number=state.pass_number,
        generation=state.generation,
        totals=whole.totals,
        left_out=whole.left_out,
        partitions=_by_status(
            partitions, {lease.partition for lease in leases if lease.generation == state.generation}
        ),
        leases=leases,
        max_parallel=state.spec.max_parallel,
        requires=state.requires,
        waits_for=tuple(each.name for each in awaited),
        awaited=awaited,
        plan_method=state.plan.method if state.plan else None,
        degraded=state.plan.degraded if state.plan else None,
        registered_at=state.registered_at,
        started_at=state.started_at,
        finished_at=state.finished_at,
        last_error=state.last_error,
        errors=whole.errors,
        partition_errors=_partition_errors(partitions),
        file=found.fact,
        note=state.note,
        notice=file_notice(found.fact, state.name, found.problem),
        reopened=state.reopened,
        history=state.history,
        progress=_progress(state, whole, partitions, ports.store.now(), rate, attended=attended or bool(leases)),
    )


def _by_status(partitions: tuple[Partition, ...], held: Collection[int]) -> dict[str, int]:
    """A partition that was begun, but that no lane holds, waits like any other."""
    waiting = {PartitionStatus.RUNNING: PartitionStatus.PENDING}
    shown = [each.status if each.seq in held else waiting.get(each.status, each.status) for each in partitions]
    return {status: shown.count(status) for status in PartitionStatus}


def _partition_errors(partitions: tuple[Partition, ...]) -> tuple[PartitionError, ...]:
    """The worst come first; the store forgets the error when a partition gets on."""
    raised = [
        PartitionError(
            partition=each.seq,
            failures=each.failures,
            failed=each.status is PartitionStatus.FAILED,
            message=each.last_error,
        )
        for each in partitions
        if each.last_error and (each.failures or each.status is PartitionStatus.FAILED)
    ]
    return tuple(sorted(raised, key=lambda each: (not each.failed, -each.failures, each.partition)))[:_MAX_SHOWN]


def _progress(
    state: BackgroundState,
    whole: BackgroundState,
    partitions: tuple[Partition, ...],
    now: datetime,
    rate: float | None,
    *,
    attended: bool,
) -> Progress:
    """Of the whole migration; how long it takes is told by the pass that is under way."""
    is_closed = closed(state)
    plan = None if is_closed and state.status not in TERMINAL else state.plan
    passing = Counters() if is_closed else sum((each.counters for each in partitions), Counters())
    elapsed = (now - plan.made_at).total_seconds() if plan else 0.0
    # What a closed pass did not come to was not there any more.
    left = None if plan is None else 0 if is_closed else plan.estimate - passing.scanned
    return progress_of(
        status=state.status,
        done=whole.totals.migrated,
        left=left,
        at_least=plan is not None and plan.at_least,
        rate=rate,
        average=passing.migrated / elapsed if elapsed > 0 else None,
        elapsed=elapsed,
        attended=attended,
    )
