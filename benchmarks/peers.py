"""The other ways to do the job. Each is a context manager that gets ready untimed and yields what is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bson.codec_options import CodecOptions
from pymongo import UpdateOne, WriteConcern
from pymongo.collection import Collection

from benchmarks.orders import ORDERS, VERSION_INDEX, Orders

Job = Callable[[], None]
_BATCH = 1000
_OLD = {"schema_version": 1}


@contextmanager
def naive(orders: Orders) -> Iterator[Job]:
    """Find, and update one after the other: what everybody writes first. A concurrent write of the address is lost."""

    def job() -> None:
        collection = _majority(orders)
        for order in collection.find(_OLD):
            shipping = {"address": order["address"]}
            collection.update_one(
                {"_id": order["_id"]},
                {"$set": {"shipping": shipping, "schema_version": 2}, "$unset": {"address": ""}},
            )

    yield job


@contextmanager
def server(orders: Orders) -> Iterator[Job]:
    """One ``update_many`` with a pipeline: the limit. No pause, no progress, no way to go on after a crash."""

    def job() -> None:
        shipping = {"shipping": {"address": "$address"}, "schema_version": 2}
        _majority(orders).update_many(_OLD, [{"$set": shipping}, {"$unset": "address"}])

    yield job


@contextmanager
def hand(orders: Orders) -> Iterator[Job]:
    """A bulk loop as a careful engineer writes it.

    It loses no concurrent write (each update is filtered by what was read), goes on after a crash (a
    checkpoint after each batch), and ends when a count finds nothing left. It cannot be paused or shared
    among processes, and one bad document ends it.
    """
    yield _ByHand(orders).run


@contextmanager
def hand_raw(orders: Orders) -> Iterator[Job]:
    """The same loop with the ``update`` command itself: quicker, but the driver does not repeat it after a failover."""
    yield _ByRawCommand(orders).run


class _ByHand:
    def __init__(self, orders: Orders) -> None:
        self._orders = _majority(orders)
        self._checkpoints = orders.db.get_collection("checkpoints", write_concern=WriteConcern("majority"))

    def run(self) -> None:
        while self._orders.count_documents(_OLD, limit=1, hint=VERSION_INDEX):
            self._pass()

    def _pass(self) -> None:
        """All orders once; those that were written between read and write are left to the next pass."""
        found = self._checkpoints.find_one({"_id": "orders"})
        last = found["last"] if found else None
        while batch := self._read(last):
            self._write(batch)
            last = batch[-1]["_id"]
            self._checkpoints.update_one({"_id": "orders"}, {"$set": {"last": last}}, upsert=True)
        self._checkpoints.delete_one({"_id": "orders"})

    def _read(self, last: Any) -> list[dict[str, Any]]:
        query = _OLD if last is None else {**_OLD, "_id": {"$gt": last}}
        found = self._orders.find(query, sort=[("_id", 1)], limit=_BATCH, batch_size=_BATCH, hint=VERSION_INDEX)
        return list(found)

    def _write(self, batch: list[dict[str, Any]]) -> None:
        self._orders.bulk_write([UpdateOne(*_guarded(order)) for order in batch], ordered=False)


class _ByRawCommand(_ByHand):
    def _write(self, batch: list[dict[str, Any]]) -> None:
        updates = [dict(zip(("q", "u"), _guarded(order), strict=True)) for order in batch]
        majority = {"w": "majority"}
        reply = self._orders.database.command("update", ORDERS, updates=updates, ordered=False, writeConcern=majority)
        if "writeErrors" in reply or "writeConcernError" in reply:
            raise RuntimeError("The server refused an update.")


def _guarded(order: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The filter and the change of one update; the filter matches only what was read."""
    guard = {"_id": order["_id"], "schema_version": 1, "revision": order["revision"]}
    change = {
        "$set": {"shipping": {"address": order["address"]}, "schema_version": 2},
        "$unset": {"address": ""},
        "$inc": {"revision": 1},
    }
    return guard, change


def _majority(orders: Orders) -> Collection[dict[str, Any]]:
    """The orders, written as migronaut writes them."""
    options: CodecOptions[dict[str, Any]] = CodecOptions(document_class=dict)
    return orders.collection.with_options(options, write_concern=WriteConcern("majority"))
