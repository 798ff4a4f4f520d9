"""The ``Locks`` port on MongoDB: a lock is ours, or expired, by the server's clock; the nonce decides whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from attrs import frozen
from pymongo import ReturnDocument
from pymongo.database import Database

from migronaut.core.ports import Owner
from migronaut.mongo.connection import collections, translating

_TIMED = {"$and": [{"$eq": [{"$type": "$locked_at"}, "date"]}, {"$isNumber": "$ttl"}]}
_OVER = {"$lte": [{"$add": ["$locked_at", {"$multiply": ["$ttl", 1000]}]}, "$$NOW"]}
# A record without a time to live (damaged, or another tool's) would be held for ever: it is free.
_EXPIRED = {"$cond": [_TIMED, _OVER, True]}
_STAMPED = {"since": "$$NOW", "locked_at": "$$NOW"}


@frozen(kw_only=True)
class Holder:
    """Who holds a lock: for messages. The nonce stays in the database.

    Args:
        since: Server time at which it was acquired; None where the record does not say.
        expires_at: Server time at which anybody may take it; None for at once.
    """

    owner: str
    host: str
    pid: int
    since: datetime | None
    expires_at: datetime | None


class MongoLocks:
    """Named locks, one document each.

    Args:
        db: Where they live; its client may be set up in any way.
        lock_collection: Their collection.
    """

    def __init__(self, db: Database[Any], *, lock_collection: str = "_migronaut_locks") -> None:
        (self._locks,) = collections(db, lock_collection)

    @translating()
    def acquire(self, name: str, *, owner: Owner, ttl: float) -> str | None:
        """The nonce of a lock that is now ours, or None when somebody holds it."""
        nonce = uuid4().hex
        ours = {"_id": name, "owner": owner.name, "host": owner.host, "pid": owner.pid, "nonce": nonce, "ttl": ttl}
        taken = {"$mergeObjects": [{"$literal": ours}, _STAMPED]}
        doc = self._locks.find_one_and_update(
            {"_id": name},
            [{"$replaceWith": {"$cond": [_EXPIRED, taken, "$$ROOT"]}}],
            upsert=True,
            projection={"nonce": 1},
            return_document=ReturnDocument.AFTER,
        )
        return nonce if doc is not None and doc.get("nonce") == nonce else None

    @translating()
    def renew(self, name: str, nonce: str) -> bool:
        """Extend; False when the lock is no longer ours."""
        renewed = {"$currentDate": {"locked_at": True}}
        return self._locks.update_one({"_id": name, "nonce": nonce}, renewed).matched_count == 1

    @translating()
    def release(self, name: str, nonce: str) -> bool:
        """Give back; False when the lock was no longer ours."""
        return self._locks.delete_one({"_id": name, "nonce": nonce}).deleted_count == 1

    @translating()
    def holder(self, name: str) -> Holder | None:
        """Who is written down as the holder, expired or not."""
        doc = self._locks.find_one({"_id": name})
        return None if doc is None else _holder(doc)

    @translating()
    def force_release(self, name: str) -> Holder | None:
        """Delete the lock whoever holds it; who that was."""
        doc = self._locks.find_one_and_delete({"_id": name})
        return None if doc is None else _holder(doc)


def _holder(doc: Mapping[str, Any]) -> Holder:
    locked_at, ttl, pid = doc.get("locked_at"), doc.get("ttl"), doc.get("pid")
    since = doc.get("since")
    expires_at = None
    if isinstance(locked_at, datetime) and isinstance(ttl, int | float):
        expires_at = locked_at + timedelta(seconds=ttl)
    return Holder(
        owner=str(doc.get("owner", "unknown")),
        host=str(doc.get("host", "unknown")),
        pid=pid if isinstance(pid, int) else 0,
        since=since if isinstance(since, datetime) else None,
        expires_at=expires_at,
    )
