"""The partitions of a plan: stored, listed, reopened, dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migronaut.core.ports import Pass
from migronaut.core.state import OPEN_PARTITIONS, Partition, PartitionStatus
from migronaut.mongo.codec import partition_from, to_document
from migronaut.mongo.connection import translating
from migronaut.mongo.records import StoreRecords

OPEN = sorted(OPEN_PARTITIONS)
_CLEAN: dict[str, Any] = {"failures": 0, "last_error": None, "bad_ids": [], "errors": []}


def of_pass(work: Pass) -> dict[str, Any]:
    """Query for the partitions of one plan."""
    return {"background": work.background, "generation": work.generation, "plan": work.plan}


class Partitions(StoreRecords):
    """One document a partition; who holds it is in ``leases``."""

    @translating()
    def add_partitions(self, partitions: Sequence[Partition]) -> None:
        """Store the partitions of a plan that is not committed yet."""
        if not partitions:
            return
        self._prepare()
        self._partitions.insert_many([to_document(partition) for partition in partitions], ordered=False)

    @translating()
    def partitions(self, work: Pass) -> tuple[Partition, ...]:
        """The partitions of one plan, in the order of their sequence numbers.

        Raises:
            StateInvalidError: A record is damaged.
        """
        return tuple(partition_from(doc) for doc in self._partitions.find(of_pass(work)).sort("seq"))

    @translating()
    def drop_plan(self, work: Pass) -> None:
        """Delete the partitions of one plan (a planner lost the race)."""
        self._partitions.delete_many(of_pass(work))

    @translating()
    def drop_before(self, background: str, generation: int) -> None:
        """Delete the partitions of all generations before ``generation``."""
        self._partitions.delete_many({"background": background, "generation": {"$lt": generation}})

    @translating()
    def reset_partitions(self, work: Pass) -> int:
        """Make failed partitions pending again; forget the bad documents and errors of all."""
        self._partitions.update_many(of_pass(work), {"$set": _CLEAN})
        failed = of_pass(work) | {"status": PartitionStatus.FAILED}
        return self._partitions.update_many(failed, {"$set": {"status": PartitionStatus.PENDING}}).modified_count
