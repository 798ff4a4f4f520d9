"""The partitions of a plan in memory: stored, listed, reopened, dropped."""

from __future__ import annotations

from collections.abc import Sequence

from migronaut.core.ports import Pass, PortError
from migronaut.core.state import Partition, PartitionStatus
from migronaut.memory.records import StoreRecords


class Partitions(StoreRecords):
    """The partitions of all plans; who holds one is in ``leases``."""

    def add_partitions(self, partitions: Sequence[Partition]) -> None:
        """Store the partitions of a plan that is not committed yet.

        Raises:
            PortError: One of them is stored already; it stays as it is, and the others are stored.
        """
        self._server.reach("store.add_partitions")
        with self._server.lock, self._server.durability.together():
            before = len(self._server.partitions)
            for partition in partitions:
                if partition.id not in self._server.partitions:
                    self._server.partitions[partition.id] = partition
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
