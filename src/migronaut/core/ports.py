"""What the engine needs from the outside, as Protocols.

Each has a contract test-suite that every implementation passes. Ports speak in frozen values and in
the errors at the end of this file; no error of a driver leaves a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from attrs import frozen

from migronaut.core.jobs import Hint
from migronaut.core.state import BackgroundState, Counters, Cursor, DocumentError, Partition, Scope
from migronaut.core.tickets import ContinueLater, Role, Ticket, WaitForLanes

# --------------------------------------------------------------------------- time and stopping


class Stop(Protocol):
    """A request to stop, looked at wherever stopping is safe."""

    @property
    def reason(self) -> str | None:
        """Why, once set."""

    def is_set(self) -> bool:
        """True once somebody asked to stop."""


class Clock(Protocol):
    """Time as the engine sees it. Staleness is never judged by it: that is the server's clock."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Return after ``seconds``, or as soon as ``stop`` is set."""


class Heartbeat(Protocol):
    """Renews a right in the background while a block of work runs."""

    def beating(self, renew: Callable[[], bool], *, ttl: float) -> AbstractContextManager[Stop]:
        """Call ``renew`` every ttl/2 seconds.

        Returns:
            A context manager whose value is set when ``renew`` answered False, or when no renewal
            succeeded for ttl - min(5, ttl/4) seconds.
        """


# --------------------------------------------------------------------------- state and leases


@frozen(kw_only=True)
class Owner:
    """Who holds a lease: shown to operators, never trusted."""

    name: str
    host: str
    pid: int


@frozen(kw_only=True)
class Pass:
    """One planned pass of one migration: what lanes work for."""

    background: str
    generation: int
    plan: str


@frozen
class Busy:
    """Every slot is held; try again after ``retry_after`` seconds."""

    retry_after: float


@frozen
class Exhausted:
    """No partition is left to claim."""


Claim = Partition | Busy | Exhausted


@frozen(kw_only=True)
class Checkpoint:
    """What one commit adds to a partition.

    Args:
        cursor: Where the partition is through; None leaves it.
        counters: Added to the partition's.
        bad_ids: Documents that failed; one may be named twice when its batch was run twice.
        errors: Why; the last 20 are kept.
        done: Close the partition and free its slot.
    """

    cursor: Cursor | None = None
    counters: Counters = Counters()
    bad_ids: tuple[Any, ...] = ()
    errors: tuple[DocumentError, ...] = ()
    done: bool = False


@frozen(kw_only=True)
class LiveLease:
    """A lease as an operator sees it; the token stays in the database.

    Args:
        partition: Sequence number of the partition in its generation.
    """

    generation: int
    partition: int
    slot: int
    owner: str
    host: str
    pid: int
    expires_at: datetime


class Store(Protocol):
    """States, partitions and leases. All times are the database server's."""

    def now(self) -> datetime:
        """The server's time, UTC and naive, in milliseconds."""

    def load(self, name: str) -> BackgroundState | None:
        """The state of one migration."""

    def states(self) -> tuple[BackgroundState, ...]:
        """All states, in the order of their names."""

    def insert(self, state: BackgroundState) -> bool:
        """Store a new state; False when one of that name exists."""

    def save(self, state: BackgroundState) -> BackgroundState | None:
        """Compare-and-set on ``state.revision``.

        Returns:
            The state as stored (revision + 1), or None when somebody else wrote meanwhile.
        """

    def add_partitions(self, partitions: Sequence[Partition]) -> None:
        """Store the partitions of a plan that is not committed yet."""

    def partitions(self, work: Pass) -> tuple[Partition, ...]:
        """The partitions of one plan, in the order of their sequence numbers."""

    def drop_plan(self, work: Pass) -> None:
        """Delete the partitions of one plan (a planner lost the race)."""

    def drop_before(self, background: str, generation: int) -> None:
        """Delete the partitions of all generations before ``generation``."""

    def reset_partitions(self, work: Pass) -> int:
        """Make failed partitions pending again; forget the bad documents and errors of all.

        Returns:
            How many had failed.
        """

    def claim(self, work: Pass, *, owner: Owner, slots: int, ttl: float) -> Claim:
        """Take one open partition and one of ``slots`` slots, atomically.

        Expired leases (server clock) are reaped first. Started partitions come first, then the largest.
        """

    def renew(self, partition: Partition) -> bool:
        """Extend the lease; False when it is no longer ours."""

    def release(self, partition: Partition) -> bool:
        """Give the lease back, keep the partition's place; False when it was no longer ours."""

    def checkpoint(self, partition: Partition, checkpoint: Checkpoint) -> None:
        """Write progress under the lease token and renew the lease; consecutive failures start again at 0.

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
        """

    def fail_slice(self, partition: Partition, *, error: str, limit: int) -> bool:
        """Count a raised slice and free the lease; True when the partition failed for good (``limit`` in a row)."""

    def leases(self, background: str) -> tuple[LiveLease, ...]:
        """The leases that have not expired."""

    def drop_leases(self, background: str) -> int:
        """Take all leases away: their holders are fenced off at their next write; their number."""

    def tick(self, clock: str, *, interval: float) -> bool:
        """True for one caller per ``interval`` seconds in the whole cluster (compare-and-set on a clock document)."""

    def last_tick(self, clock: str) -> datetime | None:
        """When ``tick`` last let somebody through."""


# --------------------------------------------------------------------------- documents


@frozen(kw_only=True)
class Batch:
    """Raw documents in ``_id`` order; ``end`` when nothing follows in the scope."""

    documents: tuple[bytes, ...]
    end: bool


@frozen(kw_only=True)
class Write:
    """One document to write.

    Args:
        id: Its ``_id``, decoded.
        before: The BSON it had when it was transformed.
        statement: BSON of ``{"q": filter, "u": update}``, as an update command takes it.
    """

    id: Any
    before: bytes
    statement: bytes


@frozen(kw_only=True)
class GuardedResult:
    """What an unordered guarded update did: how many filters matched, and what the server refused (index -> code)."""

    matched: int
    refused: Mapping[int, int]


CheckpointFor = Callable[[frozenset[int]], Checkpoint]
"""From the indexes of the writes that were left out to the checkpoint of that commit."""


class Documents(Protocol):
    """The collection that is being rewritten. ``match`` is a query; reads go to the primary."""

    def transactions(self) -> bool:
        """True when the server can do multi-document transactions."""

    def indexed(self) -> bool:
        """True when finding what is left needs no scan: an index on version and ``_id`` exists."""

    def count(
        self, match: Mapping[str, Any], *, limit: int, without: Sequence[Any] = (), timeout: float | None = None
    ) -> int:
        """Matching documents, at most ``limit``, leaving out the ids ``without``.

        Raises:
            TookTooLongError: It took longer than ``timeout`` seconds.
        """

    def total(self) -> int:
        """Documents in the collection, from its metadata."""

    def brackets(self) -> tuple[str, ...]:
        """Type brackets of ``_id`` that hold any document, in BSON order; whether one matches would take a scan."""

    def sample(
        self, match: Mapping[str, Any], *, size: int, collection_first: bool, timeout: float
    ) -> Mapping[str, Sequence[Any]]:
        """Random ``_id`` values by bracket, each list in server order.

        Raises:
            TookTooLongError: It took longer than ``timeout`` seconds.
        """

    def read(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next documents of a scope. A batch cut by size is not an end."""

    def fetch(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Documents by ``_id``, those that match."""

    def write_same(
        self,
        partition: Partition,
        writes: Sequence[Write],
        *,
        checkpoint: CheckpointFor,
        must_leave: Mapping[str, Any] | None = None,
    ) -> frozenset[int]:
        """One short snapshot transaction: compare bytes, update by ``_id``, checkpoint under the lease, commit.

        Args:
            must_leave: A query that no written document may match afterwards.

        Returns:
            Indexes of writes left out because the document is gone or is no longer the one transformed.

        Raises:
            LeaseLostError, WriteConflictError, WriteRefusedError, WriteTooLargeError, UnavailableError:
                Nothing was written.
        """

    def write_guarded(self, writes: Sequence[Write], *, write_concern: Mapping[str, Any]) -> GuardedResult:
        """One unordered update in which each statement's own filter is the guard.

        Raises:
            WriteTooLargeError, UnavailableError: Part of it may have been written.
        """


# --------------------------------------------------------------------------- locks, tickets, queue


class Locks(Protocol):
    """Named locks with a holder, a time to live and the server's clock."""

    def acquire(self, name: str, *, owner: Owner, ttl: float) -> str | None:
        """The nonce of a lock that is now ours, or None when somebody holds it."""

    def renew(self, name: str, nonce: str) -> bool:
        """Extend; False when the lock is no longer ours."""

    def release(self, name: str, nonce: str) -> bool:
        """Give back; False when the lock was no longer ours."""


class Tickets(Protocol):
    """The rights to be woken. Every method is one compare-and-set; None or False means: somebody was faster."""

    def open(self, migration: str, role: Role, *, lane: int | None = None) -> tuple[Ticket, bool]:
        """A fresh ticket (True), or the one that is alive already (False)."""

    def claim(self, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
        """``waiting`` (or ``working`` past its due time) to ``working``."""

    def extend(self, ticket: Ticket, *, ttl: float) -> bool:
        """Keep a working ticket from being healed while its work goes on."""

    def again(self, ticket: Ticket, *, delay: float, failures: int = 0) -> Ticket | None:
        """``working`` to ``waiting`` with the next sequence number, due in ``delay`` seconds."""

    def close(self, ticket: Ticket) -> bool:
        """Delete a ticket that we work for."""

    def wake(self, migration: str) -> Ticket | None:
        """Make a waiting coordinator ticket that is due later due now."""

    def of(self, migration: str) -> tuple[Ticket, ...]:
        """All tickets of a migration."""

    def overdue(self) -> tuple[Ticket, ...]:
        """Tickets past due by more than the grace of their sends (usually 30 s x 2^sends, at most 15 min)."""

    def resend(self, ticket: Ticket) -> Ticket | None:
        """Count one more send (and a loss if it was ``working``), make it due now."""

    def drop(self, ticket: Ticket) -> bool:
        """Delete an overdue ticket, only if it is still the one that was read."""

    def sent(self, ticket: Ticket, ref: str) -> None:
        """Remember the queue-side id of the last hint."""


Job = TypeVar("Job", contravariant=True)


class QueuePort(Protocol[Job]):
    """A queue as the processor and the producer see it. ``Job`` is the library's own job object."""

    @property
    def stopping(self) -> Stop:
        """Set when this worker shuts down."""

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send hints, each under its own queue-side id."""

    def continue_later(self, job: Job, directive: ContinueLater) -> object:
        """The same job again, in the library's idiom; returns what the job function must return."""

    def wait_for_lanes(self, job: Job, directive: WaitForLanes) -> object:
        """Send the children; the same job again after the poll. Returns what the job function must return."""

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Make a waiting coordinator job due now; ``ref`` is the queue-side id it was last sent under."""

    def annotate(self, job: Job, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Show a line or the progress on the job; best effort."""


# --------------------------------------------------------------------------- what ports raise


class PortError(Exception):
    """Base of the errors by which ports talk to the engine; none of them reaches a user."""


class WriteConflictError(PortError):
    """Somebody else wrote one of the documents, or our own records, at the same time. Try again."""


class WriteRefusedError(PortError):
    """The server refuses the result of one document.

    Args:
        code: The server's error code.
        index: Which write it was; None when the server did not say.
    """

    def __init__(self, code: int, index: int | None = None, *, kind: str = "refused") -> None:
        super().__init__(f"{kind} ({code})")
        self.code = code
        self.index = index
        self.kind = kind


class WriteTooLargeError(PortError):
    """Too much, or too slow, for one command or transaction. Try with less."""


class UnavailableError(PortError):
    """No primary answers for now (failover, restart, network)."""


class TookTooLongError(PortError):
    """A read was given up after its time limit."""
