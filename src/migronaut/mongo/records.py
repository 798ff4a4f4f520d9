"""The collections behind the store, and their indexes."""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.database import Database

from migronaut.mongo.connection import collections
from migronaut.mongo.sessions import LaneSessions

_STATES = [IndexModel([("status", ASCENDING), ("registered_at", ASCENDING)])]
_PARTITIONS = [
    IndexModel([(name, ASCENDING) for name in ("background", "generation", "plan", "status", "seq")]),
    IndexModel(
        [("background", ASCENDING), ("lease.slot", ASCENDING)],
        unique=True,
        partialFilterExpression={"lease.slot": {"$exists": True}},
    ),
]


class StoreRecords:
    """States, partitions and clocks as collections. Nothing is created before the first write.

    Args:
        db: Where they live; its client may be set up in any way.
        background_collection: Name of the states; the others add a suffix to it.
    """

    def __init__(self, db: Database[Any], *, background_collection: str = "_migronaut_background") -> None:
        self._states, self._partitions, self._clocks = collections(
            db, background_collection, f"{background_collection}_partitions", f"{background_collection}_clock"
        )
        self._db = db
        self.sessions = LaneSessions(db.client)
        self._prepared = False

    def _prepare(self) -> None:
        """Create the indexes, once for each store; the server answers at once where they exist."""
        if self._prepared:
            return
        self._states.create_indexes(_STATES)
        self._partitions.create_indexes(_PARTITIONS)
        self._prepared = True
