"""States, partitions and leases: where a migration stands, and who may write which part of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from attrs import frozen

from migronaut.core.state import BackgroundState, Counters, Cursor, DocumentError, Partition


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
        """Store the partitions of a plan that is not committed yet.

        Raises:
            PortError: One of them is stored already; it stays as it is, and the others are stored.
        """

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

        Expired leases are fenced first. Started partitions come first, then the largest.
        """

    def renew(self, partition: Partition) -> bool:
        """Extend the lease; False when it is no longer ours."""

    def holds(self, partition: Partition) -> bool:
        """Whether the lease is still ours; it may be gone a moment later."""

    def place(self, partition: Partition) -> Cursor | None:
        """Where the partition is as it is stored now: a failover may have undone a checkpoint.

        Raises:
            LeaseLostError: The lease is no longer ours.
        """

    def release(self, partition: Partition) -> bool:
        """Give the lease back, keep the partition's place; False when it was no longer ours."""

    def checkpoint(self, partition: Partition, checkpoint: Checkpoint, *, durable: bool = True) -> None:
        """Write progress under the lease token and renew the lease; consecutive failures start again at 0.

        Args:
            durable: Wait until no failover can undo it. Whatever is written durably later makes it so as well.

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
        """

    def fail_slice(self, partition: Partition, *, error: str, limit: int) -> bool:
        """Count a raised slice and free the lease; True when the partition failed for good (``limit`` in a row)."""

    def leases(self, background: str) -> tuple[LiveLease, ...]:
        """The leases that have not expired: for those who only look."""

    def fence_expired(self, background: str) -> tuple[LiveLease, ...]:
        """Take away the leases that have expired by the server's clock, each only if it is still that one.

        What a dead holder has open is aborted, and ``reclaims`` counts each. Every decision that rests on lanes being
        gone asks here: an expired lease that nobody took away is still good for a commit.

        Returns:
            The leases that are left. Whoever holds none of them can commit nothing more.
        """

    def drop_leases(self, background: str) -> int:
        """Take all leases away: their holders are fenced off at their next write; their number."""

    def tick(self, clock: str, *, interval: float) -> bool:
        """True for one caller per ``interval`` seconds in the whole cluster (compare-and-set on a clock document)."""
