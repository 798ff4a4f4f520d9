"""Counting in the collection itself what the demo claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from pymongo.database import Database

from migronaut.demo.orders import COLLECTION, FIRST_REVISION
from migronaut.demo.project import REVISION_FIELD, TO_VERSION

_MIGRATED_ONCE = {
    "schema_version": TO_VERSION,
    "shipping.address": {"$exists": True},
    "total": {"$exists": True},
    "address": {"$exists": False},
    # One by the seed, one by the migration, and one for each write of the application.
    "$expr": {"$eq": [f"${REVISION_FIELD}", {"$add": [FIRST_REVISION, 1, "$edits"]}]},
}


@frozen(kw_only=True)
class Proof:
    """What is in the collection at the end.

    Args:
        expected: Orders that were seeded.
        present: Orders that are there.
        migrated_once: Those in the new shape whose revision says that the migration wrote them exactly once.
        writes: Writes of the application.
        lost_writes: Those that are not in the documents.
    """

    expected: int
    present: int
    migrated_once: int
    writes: int
    lost_writes: int

    @property
    def problem(self) -> str | None:
        """What did not come out as promised; None when all did."""
        if self.present != self.expected:
            return f"{self.expected} orders were seeded and {self.present} are there"
        if self.migrated_once != self.expected:
            return f"{self.expected - self.migrated_once} of {self.expected} orders were not migrated exactly once"
        if self.lost_writes:
            return f"{self.lost_writes} of {self.writes} writes of the application are lost"
        return None


def prove(db: Database[Any], *, expected: int, writes: Mapping[int, int]) -> Proof:
    """Count.

    Args:
        writes: How often the application wrote each order.
    """
    orders = db[COLLECTION]
    stored = {doc["_id"]: doc["edits"] for doc in orders.find({"edits": {"$gt": 0}}, {"edits": 1})}
    return Proof(
        expected=expected,
        present=orders.count_documents({}),
        migrated_once=orders.count_documents(_MIGRATED_ONCE),
        writes=sum(writes.values()),
        lost_writes=sum(max(0, count - stored.get(order, 0)) for order, count in writes.items()),
    )
