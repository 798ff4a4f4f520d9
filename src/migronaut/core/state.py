"""The values that the engine decides on, as they stand in the database.

Everything here is frozen: a change is a new value, written by whoever wins the compare-and-set.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from attrs import field, fields, frozen

SCHEMA = 1
"""Layout of the stored state. A state with a higher number belongs to a newer release."""

MAX_BAD_IDS = 1000
MAX_BAD_BYTES = 1024 * 1024
"""Bytes of ids of documents left out that one record remembers; a record of MongoDB holds 16 MiB."""
NOT_REMEMBERED = "not-remembered"
"""Kind of the document error that says that not all ids could be remembered."""
MAX_ERRORS = 20
MAX_HISTORY = 50


class Status(StrEnum):
    """Where a background migration stands; the moves between are in ``lifecycle``."""

    BLOCKED = "blocked"
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class Phase(StrEnum):
    """What the coordinator is about to do in a running migration."""

    PARTITION = "partition"
    PROCESS = "process"
    REPLAN = "replan"


class Direction(StrEnum):
    """Which way documents are rewritten."""

    FORWARD = "forward"
    REVERT = "revert"


class Guard(StrEnum):
    """How a write makes sure that the document is still the one that was read."""

    AUTO = "auto"
    SNAPSHOT = "snapshot"
    REVISION = "revision"
    VERSION = "version"


class PartitionStatus(StrEnum):
    """Where one partition stands. The names sort so that started work comes before new work."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


OPEN_PARTITIONS = frozenset({PartitionStatus.PENDING, PartitionStatus.RUNNING})


@frozen(kw_only=True)
class Partitioning:
    """How a pass is cut into partitions.

    Args:
        over_partition: Partitions per lane, 1-64, so that a slow one does not hold up the end.
        max_partitions: Upper bound, 1-4096.
        min_documents: Do not cut finer than this, at least 1; ``None`` = 4 x batch size.
        sample_size: Sampled ids, 1-100 000; ``None`` = min(10 000, 100 x partitions).
    """

    over_partition: int = 4
    max_partitions: int = 256
    min_documents: int | None = None
    sample_size: int | None = None


@frozen(kw_only=True)
class Spec:
    """What a migration file declares, resolved to plain values: the part that is stored."""

    collection: str
    from_version: int | None = None
    to_version: int | None = None
    filter: Mapping[str, Any] | None = None
    revert_filter: Mapping[str, Any] | None = None
    version_field: str = "schema_version"
    revision_field: str | None = None
    guard: Guard = Guard.AUTO
    batch_size: int = 500
    pause: float = 0.1
    slice_length: float = 30.0
    write_concern: Mapping[str, Any] = field(factory=lambda: {"w": "majority"})
    max_document_errors: int = 0
    max_passes: int = 10
    max_conflict_retries: int = 3
    max_slice_failures: int = 3
    max_parallel: int = 1
    partitions: Partitioning = field(factory=Partitioning)
    batched: bool = False
    reversible: bool = False
    pipeline: bool = False
    revert_pipeline: bool = False

    def by_pipeline(self, direction: Direction) -> bool:
        """True when the server rewrites the documents itself."""
        return self.pipeline if direction is Direction.FORWARD else self.revert_pipeline

    @property
    def versioned(self) -> bool:
        """True when documents are chosen by version, False when by predicate."""
        return self.to_version is not None

    @property
    def min_documents(self) -> int:
        """Documents below which a partition is not cut further."""
        return self.partitions.min_documents or 4 * self.batch_size


@frozen(kw_only=True)
class Counters:
    """What happened to documents and how often; sums over batches, partitions and passes."""

    scanned: int = 0
    migrated: int = 0
    skipped: int = 0
    conflicts: int = 0
    retried: int = 0
    failed: int = 0
    batches: int = 0
    slices: int = 0
    reclaims: int = 0
    txn_retries: int = 0

    def __add__(self, other: Counters) -> Counters:
        names = [column.name for column in fields(Counters)]
        return Counters(**{name: getattr(self, name) + getattr(other, name) for name in names})


@frozen(kw_only=True)
class Scope:
    """A range of ``_id`` inside one BSON type bracket: ``lower`` < _id <= ``upper``.

    An absent bound (``bounded_below``/``bounded_above`` False) is the end of the bracket; the flag
    is apart from the value because every BSON value, None too, can be an ``_id``.
    """

    bracket: str
    lower: Any = None
    upper: Any = None
    bounded_below: bool = False
    bounded_above: bool = False


@frozen(kw_only=True)
class Cursor:
    """The last ``_id`` that a partition is through with."""

    last_id: Any


@frozen(kw_only=True)
class Lease:
    """The right of one lane to write one partition; ``token`` fences every write of it.

    Args:
        slot: 0-63; a unique index keeps two leases of a migration out of one slot.
        ttl: Seconds after ``renewed_at`` (server time) at which anybody may take it.
        session: What its transactions run in, for whoever has to end them in its place.
    """

    slot: int
    token: str
    owner: str
    host: str
    pid: int
    ttl: float
    renewed_at: datetime | None = None
    session: str | None = None


@frozen(kw_only=True)
class DocumentError:
    """Why one document could not be migrated. Holds no id and no content: those are in ``bad_ids``."""

    at: datetime
    kind: str
    message: str


@frozen(kw_only=True)
class Partition:
    """One piece of a pass: a scope, how far it is, and who holds it."""

    id: str
    background: str
    generation: int
    plan: str
    seq: int
    scope: Scope
    status: PartitionStatus = PartitionStatus.PENDING
    estimate: int = 0
    cursor: Cursor | None = None
    counters: Counters = field(factory=Counters)
    claims: int = 0
    failures: int = 0
    last_error: str | None = None
    bad_ids: tuple[Any, ...] = ()
    errors: tuple[DocumentError, ...] = ()
    lease: Lease | None = None


@frozen(kw_only=True)
class Plan:
    """The cut of one pass.

    Args:
        token: Fresh for every plan; lanes of another plan stop.
        method: ``empty``, ``single`` (one open partition a bracket) or ``sampled``.
        estimate: Documents to do; a lower bound when ``at_least``.
        match: Hash of everything that decides which documents match.
        degraded: Why the plan is coarser than wanted, e.g. ``sample-timeout``.
    """

    token: str
    method: str
    estimate: int
    match: str
    made_at: datetime
    at_least: bool = False
    degraded: str | None = None


@frozen(kw_only=True)
class HistoryEntry:
    """One thing that was done to the migration, by whom and why."""

    at: datetime
    action: str
    from_status: Status | None
    to_status: Status
    by: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class BackgroundState:
    """One background migration. ``revision`` guards every write of it (compare-and-set).

    Args:
        bad_ids: Documents left out since the last start or retry; at most 1000 are kept.
        left_out: How many documents that are, also past 1000.
        rolled_generation: Generation whose counters are in ``totals`` already.
        waits_for: What was not through when it became blocked.
        note: What an operator should know beside its status, for example that its collection is gone.
    """

    name: str
    registration: str
    status: Status
    checksum: str
    spec: Spec
    registered_at: datetime
    updated_at: datetime
    description: str = ""
    schema: int = SCHEMA
    revision: int = 0
    phase: Phase = Phase.PARTITION
    direction: Direction = Direction.FORWARD
    pass_number: int = 0
    generation: int = 0
    plan: Plan | None = None
    totals: Counters = field(factory=Counters)
    rolled_generation: int = 0
    bad_ids: tuple[Any, ...] = ()
    left_out: int = 0
    errors: tuple[DocumentError, ...] = ()
    requires: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_error: str | None = None
    note: str | None = None
    reopened: int = 0
    history: tuple[HistoryEntry, ...] = ()
