"""``Store`` in memory: states, partitions and leases, each call one compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from migronaut.core.ports import Busy, Checkpoint, Claim, Exhausted, LiveLease, Owner, Pass, PortError
from migronaut.core.state import (
    MAX_ERRORS,
    OPEN_PARTITIONS,
    SCHEMA,
    BackgroundState,
    Counters,
    Lease,
    Partition,
    PartitionStatus,
)
from migronaut.errors import BackgroundConflictError, lease_lost
from migronaut.testing.server import MemoryServer


class MemoryStore:
    """The states, partitions and leases of a ``MemoryServer``."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def now(self) -> datetime:
        """The server's time, UTC and naive, in milliseconds."""
        return self._server.now()

    def load(self, name: str) -> BackgroundState | None:
        """The state of one migration."""
        self._server.reach("store.load")
        return self._server.states.get(name)

    def states(self) -> tuple[BackgroundState, ...]:
        """All states, in the order of their names."""
        self._server.reach("store.states")
        with self._server.lock:
            return tuple(self._server.states[name] for name in sorted(self._server.states))

    def insert(self, state: BackgroundState) -> bool:
        """Store a new state; False when one of that name exists."""
        self._server.reach("store.insert")
        with self._server.lock:
            if state.name in self._server.states:
                return False
            self._server.states[state.name] = state
            return True

    def save(self, state: BackgroundState) -> BackgroundState | None:
        """Compare-and-set on ``state.revision``; ``updated_at`` becomes the server's time.

        Raises:
            BackgroundConflictError: The state belongs to a newer release.
        """
        self._server.reach("store.save")
        if state.schema > SCHEMA:
            raise BackgroundConflictError(
                "The background migration belongs to a newer release of migronaut: use that release to change it.",
                schema=state.schema,
            )
        with self._server.lock:
            stored = self._server.states.get(state.name)
            if stored is None or stored.revision != state.revision or stored.schema > SCHEMA:
                return None
            saved = evolve(state, revision=state.revision + 1, updated_at=self._server.now())
            self._server.states[state.name] = saved
            return saved

    def add_partitions(self, partitions: Sequence[Partition]) -> None:
        """Store the partitions of a plan that is not committed yet.

        Raises:
            PortError: One of them is stored already; it stays as it is, and the others are stored.
        """
        self._server.reach("store.add_partitions")
        with self._server.lock:
            before = len(self._server.partitions)
            for partition in partitions:
                self._server.partitions.setdefault(partition.id, partition)
            if len(self._server.partitions) - before < len(partitions):
                raise PortError("a partition of this id is stored already")

    def partitions(self, work: Pass) -> tuple[Partition, ...]:
        """The partitions of one plan, in the order of their sequence numbers."""
        self._server.reach("store.partitions")
        with self._server.lock:
            return tuple(self._of(work))

    def drop_plan(self, work: Pass) -> None:
        """Delete the partitions of one plan."""
        self._server.reach("store.drop_plan")
        with self._server.lock:
            for partition in self._of(work):
                del self._server.partitions[partition.id]

    def drop_before(self, background: str, generation: int) -> None:
        """Delete the partitions of all generations before ``generation``."""
        self._server.reach("store.drop_before")
        with self._server.lock:
            for partition in self._all(background):
                if partition.generation < generation:
                    del self._server.partitions[partition.id]

    def reset_partitions(self, work: Pass) -> int:
        """Make failed partitions pending again; forget the bad documents and errors of all."""
        self._server.reach("store.reset_partitions")
        with self._server.lock:
            found = self._of(work)
            for partition in found:
                failed = partition.status is PartitionStatus.FAILED
                status = PartitionStatus.PENDING if failed else partition.status
                self._put(partition, status=status, failures=0, last_error=None, bad_ids=(), errors=())
            return sum(partition.status is PartitionStatus.FAILED for partition in found)

    def claim(self, work: Pass, *, owner: Owner, slots: int, ttl: float) -> Claim:
        """Take one open partition and one of ``slots`` slots."""
        self._server.reach("store.claim")
        with self._server.lock:
            self._reap(work.background)
            idle = sorted(self._idle(work), key=_urgency)
            if not idle:
                return Exhausted()
            taken = {partition.lease.slot for partition in self._all(work.background) if partition.lease}
            free = [slot for slot in range(slots) if slot not in taken]
            if not free:
                return Busy(ttl / 2)
            lease = Lease(
                slot=self._server.random.choice(free),
                token=self._server.token(),
                owner=owner.name,
                host=owner.host,
                pid=owner.pid,
                ttl=float(ttl),
                renewed_at=self._server.now(),
            )
            return self._put(
                idle[0],
                status=PartitionStatus.RUNNING,
                claims=idle[0].claims + 1,
                counters=idle[0].counters + Counters(slices=1),
                lease=lease,
            )

    def renew(self, partition: Partition) -> bool:
        """Extend the lease."""
        self._server.reach("store.renew")
        with self._server.lock:
            ours = held(self._server.partitions.get(partition.id), partition)
            if ours is None or ours.lease is None:
                return False
            self._put(ours, lease=evolve(ours.lease, renewed_at=self._server.now()))
            return True

    def holds(self, partition: Partition) -> bool:
        """Whether the lease is still ours."""
        self._server.reach("store.holds")
        with self._server.lock:
            return held(self._server.partitions.get(partition.id), partition) is not None

    def release(self, partition: Partition) -> bool:
        """Give the lease back, keep the partition's place."""
        self._server.reach("store.release")
        with self._server.lock:
            ours = held(self._server.partitions.get(partition.id), partition)
            if ours is None:
                return False
            self._put(ours, lease=None)
            return True

    def checkpoint(self, partition: Partition, checkpoint: Checkpoint, *, durable: bool = True) -> None:
        """Write progress under the lease token and renew the lease; memory knows no failover."""
        self._server.reach("store.checkpoint")
        with self._server.lock:
            stored = self._server.partitions.get(partition.id)
            progress = checkpointed(stored, partition, checkpoint, now=self._server.now())
            self._server.partitions[partition.id] = progress

    def fail_slice(self, partition: Partition, *, error: str, limit: int) -> bool:
        """Count a raised slice and free the lease."""
        self._server.reach("store.fail_slice")
        with self._server.lock:
            ours = held(self._server.partitions.get(partition.id), partition)
            if ours is None:
                return False
            failures = ours.failures + 1
            status = PartitionStatus.FAILED if failures >= limit else ours.status
            self._put(ours, failures=failures, last_error=error, status=status, lease=None)
            return failures >= limit

    def leases(self, background: str) -> tuple[LiveLease, ...]:
        """The leases that have not expired, in the order of their slots."""
        self._server.reach("store.leases")
        with self._server.lock:
            now = self._server.now()
            live = [_live(partition, partition.lease) for partition in self._all(background) if partition.lease]
        return tuple(sorted((lease for lease in live if lease.expires_at > now), key=lambda lease: lease.slot))

    def drop_leases(self, background: str) -> int:
        """Take all leases away."""
        self._server.reach("store.drop_leases")
        with self._server.lock:
            leased = [partition for partition in self._all(background) if partition.lease]
            for partition in leased:
                self._put(partition, lease=None)
            return len(leased)

    def tick(self, clock: str, *, interval: float) -> bool:
        """True for one caller per ``interval`` seconds."""
        self._server.reach("store.tick")
        with self._server.lock:
            now, last = self._server.now(), self._server.ticks.get(clock)
            if last is not None and now < last + timedelta(seconds=interval):
                return False
            self._server.ticks[clock] = now
            return True

    def _all(self, background: str) -> list[Partition]:
        found = (partition for partition in self._server.partitions.values() if partition.background == background)
        return sorted(found, key=lambda partition: (partition.generation, partition.seq))

    def _of(self, work: Pass) -> list[Partition]:
        wanted = (work.generation, work.plan)
        return [
            partition for partition in self._all(work.background) if (partition.generation, partition.plan) == wanted
        ]

    def _idle(self, work: Pass) -> list[Partition]:
        return [
            partition for partition in self._of(work) if partition.status in OPEN_PARTITIONS and not partition.lease
        ]

    def _put(self, partition: Partition, **changes: Any) -> Partition:
        self._server.partitions[partition.id] = changed = evolve(partition, **changes)
        return changed

    def _reap(self, background: str) -> None:
        now = self._server.now()
        for partition in self._all(background):
            if partition.lease and _expiry(partition.lease) <= now:
                self._put(partition, lease=None, counters=partition.counters + Counters(reclaims=1))


def held(stored: Partition | None, partition: Partition) -> Partition | None:
    """What is stored of a partition, if it still is under the lease that the caller holds."""
    if stored is None or stored.lease is None or partition.lease is None:
        return None
    return stored if stored.lease.token == partition.lease.token else None


def checkpointed(stored: Partition | None, partition: Partition, checkpoint: Checkpoint, *, now: datetime) -> Partition:
    """The partition after a checkpoint by the holder of its lease.

    Raises:
        LeaseLostError: It is not the holder.
    """
    ours = held(stored, partition)
    if ours is None or ours.lease is None or ours.status is not PartitionStatus.RUNNING:
        raise lease_lost()
    lease = evolve(ours.lease, renewed_at=now)
    return evolve(
        ours,
        cursor=checkpoint.cursor or ours.cursor,
        counters=ours.counters + checkpoint.counters,
        bad_ids=(*ours.bad_ids, *checkpoint.bad_ids),
        errors=(*ours.errors, *checkpoint.errors)[-MAX_ERRORS:],
        failures=0,
        status=PartitionStatus.DONE if checkpoint.done else ours.status,
        lease=None if checkpoint.done else lease,
    )


def _urgency(partition: Partition) -> tuple[bool, int, int]:
    return (partition.status is not PartitionStatus.RUNNING, -partition.estimate, partition.seq)


def _expiry(lease: Lease) -> datetime:
    if lease.renewed_at is None:
        raise ValueError("a stored lease has always been renewed: add partitions without one, and claim them")
    return lease.renewed_at + timedelta(seconds=lease.ttl)


def _live(partition: Partition, lease: Lease) -> LiveLease:
    return LiveLease(
        generation=partition.generation,
        partition=partition.seq,
        slot=lease.slot,
        owner=lease.owner,
        host=lease.host,
        pid=lease.pid,
        expires_at=_expiry(lease),
    )
