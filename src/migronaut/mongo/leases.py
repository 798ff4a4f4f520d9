"""Leases: the right of one lane to write one partition, fenced by a token, judged by the server's clock."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

from attrs import fields
from pymongo import ASCENDING, DESCENDING, ReturnDocument, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from migronaut.core.ports import Busy, Checkpoint, Claim, Exhausted, LiveLease, Owner, Pass
from migronaut.core.state import MAX_ERRORS, Counters, Cursor, Lease, Partition, PartitionStatus
from migronaut.errors import lease_lost
from migronaut.mongo.codec import errors_to_documents, partition_from
from migronaut.mongo.connection import translating
from migronaut.mongo.partitions import OPEN, of_pass
from migronaut.mongo.records import StoreRecords

_EXPIRES_AT = {"$add": ["$lease.renewed_at", {"$multiply": ["$lease.ttl", 1000]}]}
_RENEWED = {"$currentDate": {"lease.renewed_at": True}}
_TOLD = ("slot", "token", "owner", "host", "pid", "ttl", "session")
_DROPPED = {"$unset": {"lease": ""}}
# The words sort so that "running" comes before "pending".
_STARTED_THEN_LARGEST = [("status", DESCENDING), ("estimate", DESCENDING), ("seq", ASCENDING)]
_COUNTERS = [(attribute.name, f"counters.{attribute.name}") for attribute in fields(Counters)]


def _held(background: str) -> dict[str, Any]:
    return {"background": background, "lease.slot": {"$exists": True}}


def _ours(partition: Partition) -> dict[str, Any]:
    """Query that matches while the lease is ours; ``claim`` never makes a lease without a token."""
    token = None if partition.lease is None else partition.lease.token
    return {"_id": partition.id, "lease.token": token or "", "status": PartitionStatus.RUNNING}


class Leases(StoreRecords):
    """Claims and what a lane writes under them. At most one lease a slot: a unique index says so."""

    @translating()
    def claim(self, work: Pass, *, owner: Owner, slots: int, ttl: float) -> Claim:
        """Take one open partition and one of ``slots`` slots, atomically.

        Expired leases are fenced first. Started partitions come first, then the largest.
        """
        self._prepare()
        self._fence_expired(work.background)
        session = self.sessions.current_name()
        for slot in self._slots(work.background, slots):
            lease = Lease(
                slot=slot,
                token=uuid4().hex,
                owner=owner.name,
                host=owner.host,
                pid=owner.pid,
                ttl=ttl,
                session=session,
            )
            try:
                doc = self._take(work, lease)
            except DuplicateKeyError:
                continue
            return Exhausted() if doc is None else partition_from(doc)
        return Busy(ttl / 2)

    def _slots(self, background: str, slots: int) -> Iterator[int]:
        """A guess first: mostly it is free, and the others need not be asked for."""
        first = random.randrange(slots)
        yield first
        held = {doc["lease"]["slot"] for doc in self._partitions.find(_held(background), {"lease.slot": 1})}
        later = ((first + step) % slots for step in range(1, slots))
        yield from (slot for slot in later if slot not in held)

    def _take(self, work: Pass, lease: Lease) -> dict[str, Any] | None:
        told = {name: getattr(lease, name) for name in _TOLD}
        return self._partitions.find_one_and_update(
            of_pass(work) | {"status": {"$in": OPEN}, "lease": {"$exists": False}},
            {
                "$set": {"status": PartitionStatus.RUNNING} | {f"lease.{name}": value for name, value in told.items()},
                "$inc": {"claims": 1, "counters.slices": 1},
                **_RENEWED,
            },
            sort=_STARTED_THEN_LARGEST,
            return_document=ReturnDocument.AFTER,
        )

    @translating()
    def fence_expired(self, background: str) -> tuple[LiveLease, ...]:
        """Take expired leases away; those that are left, in the order of their slots."""
        self._fence_expired(background)
        return self._told(_held(background))

    def _fence_expired(self, background: str) -> None:
        expired = _held(background) | {"$expr": {"$lte": [_EXPIRES_AT, "$$NOW"]}}
        for lost in self._end_sessions(expired):
            # By its token, and only while it is expired: a lane that was late may have renewed it meanwhile.
            self._partitions.update_one(
                expired | {"_id": lost["_id"], "lease.token": lost["lease"]["token"]},
                {"$inc": {"counters.reclaims": 1}, **_DROPPED},
            )

    def _end_sessions(self, held: dict[str, Any]) -> list[dict[str, Any]]:
        """Abort what the holders of leases have open, or their partitions would be locked; who they are."""
        found = list(self._partitions.find(held, {"lease.token": 1, "lease.session": 1}))
        self.sessions.end(doc["lease"].get("session") for doc in found)
        return found

    @translating()
    def renew(self, partition: Partition) -> bool:
        """Extend the lease; False when it is no longer ours."""
        return self._partitions.update_one(_ours(partition), _RENEWED).matched_count == 1

    @translating()
    def holds(self, partition: Partition) -> bool:
        """Whether the lease is still ours."""
        return self._partitions.find_one(_ours(partition), {"_id": 1}) is not None

    @translating()
    def place(self, partition: Partition) -> Cursor | None:
        """Where the partition is as it is stored now.

        Raises:
            LeaseLostError: The lease is no longer ours.
        """
        found = self._partitions.find_one(_ours(partition))
        if found is None:
            raise lease_lost()
        return partition_from(found).cursor

    @translating()
    def release(self, partition: Partition) -> bool:
        """Give the lease back, keep the partition's place; False when it was no longer ours."""
        return self._partitions.update_one(_ours(partition), _DROPPED).matched_count == 1

    @translating()
    def checkpoint(
        self,
        partition: Partition,
        checkpoint: Checkpoint,
        *,
        durable: bool = True,
        session: ClientSession | None = None,
    ) -> None:
        """Write progress under the lease token and renew the lease; consecutive failures start again at 0.

        Args:
            partition: As it was claimed.
            checkpoint: What to add.
            durable: Wait for a majority.
            session: Write inside this session's transaction.

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
        """
        partitions = self._partitions if durable else self._partitions.with_options(write_concern=WriteConcern(1))
        if not partitions.update_one(_ours(partition), _progress(checkpoint), session=session).matched_count:
            raise lease_lost()

    @translating()
    def fail_slice(self, partition: Partition, *, error: str, limit: int) -> bool:
        """Count a raised slice and free the lease; True when the partition failed for good (``limit`` in a row)."""
        status = {"$cond": [{"$gte": ["$failures", limit]}, PartitionStatus.FAILED, "$status"]}
        doc = self._partitions.find_one_and_update(
            _ours(partition),
            [
                {"$set": {"failures": {"$add": ["$failures", 1]}, "last_error": {"$literal": error}}},
                {"$set": {"status": status}},
                {"$unset": "lease"},
            ],
            projection={"status": 1},
            return_document=ReturnDocument.AFTER,
        )
        return doc is not None and doc["status"] == PartitionStatus.FAILED

    @translating()
    def leases(self, background: str) -> tuple[LiveLease, ...]:
        """The leases that have not expired, in the order of their slots."""
        return self._told(_held(background) | {"$expr": {"$gt": [_EXPIRES_AT, "$$NOW"]}})

    def _told(self, held: dict[str, Any]) -> tuple[LiveLease, ...]:
        found = self._partitions.find(held, {"generation": 1, "seq": 1, "lease": 1}).sort("lease.slot")
        return tuple(_live(doc) for doc in found)

    @translating()
    def drop_leases(self, background: str) -> int:
        """Take all leases away: their holders are fenced off at their next write; their number."""
        self._end_sessions(_held(background))
        return self._partitions.update_many(_held(background), _DROPPED).modified_count


def _progress(checkpoint: Checkpoint) -> dict[str, Any]:
    """One update; it is on the path of every batch, so what is empty is left out."""
    values: dict[str, Any] = {"failures": 0}
    update: dict[str, Any] = {"$set": values}
    if checkpoint.cursor is not None:
        values["cursor"] = {"last_id": checkpoint.cursor.last_id}
    counters = checkpoint.counters
    added = {path: amount for name, path in _COUNTERS if (amount := getattr(counters, name))}
    if added:
        update["$inc"] = added
    if checkpoint.bad_ids or checkpoint.errors:
        update["$push"] = _failed_documents(checkpoint)
    if checkpoint.done:
        values["status"] = PartitionStatus.DONE
        return update | _DROPPED
    return update | _RENEWED


def _failed_documents(checkpoint: Checkpoint) -> dict[str, Any]:
    # Distinct by construction, and $addToSet would take 1 and 1.0 for the same id.
    pushed: dict[str, Any] = {"bad_ids": {"$each": list(checkpoint.bad_ids)}}
    if checkpoint.errors:
        pushed["errors"] = {"$each": errors_to_documents(checkpoint.errors), "$slice": -MAX_ERRORS}
    return pushed


def _live(doc: dict[str, Any]) -> LiveLease:
    lease = doc["lease"]
    return LiveLease(
        generation=doc["generation"],
        partition=doc["seq"],
        slot=lease["slot"],
        owner=lease["owner"],
        host=lease["host"],
        pid=lease["pid"],
        expires_at=lease["renewed_at"] + timedelta(seconds=lease["ttl"]),
    )
