"""Leases in memory: who may write a partition, and every write that rests on it."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve

from migronaut.core.ports import Busy, Checkpoint, Claim, Exhausted, LiveLease, Owner, Pass
from migronaut.core.state import MAX_ERRORS, OPEN_PARTITIONS, Counters, Cursor, Lease, Partition, PartitionStatus
from migronaut.errors import lease_lost
from migronaut.memory.records import StoreRecords


class Leases(StoreRecords):
    """Taken, renewed, lost; each call one atomic step."""

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

    def place(self, partition: Partition) -> Cursor | None:
        """Where the partition is as it is stored now.

        Raises:
            LeaseLostError: The lease is no longer ours.
        """
        self._server.reach("store.place")
        with self._server.lock:
            ours = held(self._server.partitions.get(partition.id), partition)
            if ours is None:
                raise lease_lost()
            return ours.cursor

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
            return tuple(lease for lease in self._held(background) if lease.expires_at > now)

    def fence_expired(self, background: str) -> tuple[LiveLease, ...]:
        """Take expired leases away; those that are left, in the order of their slots."""
        self._server.reach("store.fence_expired")
        with self._server.lock:
            self._reap(background)
            return self._held(background)

    def drop_leases(self, background: str) -> int:
        """Take all leases away."""
        self._server.reach("store.drop_leases")
        with self._server.lock:
            leased = [partition for partition in self._all(background) if partition.lease]
            for partition in leased:
                self._put(partition, lease=None)
            return len(leased)

    def _idle(self, work: Pass) -> list[Partition]:
        return [
            partition for partition in self._of(work) if partition.status in OPEN_PARTITIONS and not partition.lease
        ]

    def _held(self, background: str) -> tuple[LiveLease, ...]:
        held = (_live(partition, partition.lease) for partition in self._all(background) if partition.lease)
        return tuple(sorted(held, key=lambda lease: lease.slot))

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
