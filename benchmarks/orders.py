"""The job that every peer does: orders of about 500 bytes, one field of each to be moved."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import bson
from attrs import frozen
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

DB = "bench"
ORDERS = "orders"
VERSION_INDEX = [("schema_version", 1), ("_id", 1)]

_TEMPLATES = "bench_templates"
_CHUNK = 10_000
_SAMPLE = 200
_FIRST_DAY = datetime(2026, 1, 1)  # noqa: DTZ001 - stored as it is
_CITIES = ("Aachen", "Bergen", "Coimbra", "Delft", "Esbjerg", "Faro", "Ghent", "Halle")
_NOTE = "Please leave the parcel with the neighbour if nobody opens, and ring twice before you go on to the next door."


class WrongResultError(Exception):
    """A peer did not do the job, so its time means nothing."""


@frozen
class Orders:
    """So many orders, the same ones whenever they are asked for."""

    client: MongoClient[Any]
    documents: int

    @property
    def db(self) -> Database[Any]:
        """The database that a repetition works in."""
        return self.client[DB]

    @property
    def collection(self) -> Collection[Any]:
        """The collection to migrate."""
        return self.db[ORDERS]

    @property
    def _template(self) -> Collection[Any]:
        return self.client[_TEMPLATES][f"orders_{self.documents}"]

    def fresh(self) -> None:
        """Forget all that was done, lay out the orders anew, and let the server come to rest."""
        if self._template.estimated_document_count() != self.documents:
            self._make_template()
        self.client.drop_database(DB)
        self._template.aggregate([{"$out": {"db": DB, "coll": ORDERS}}])
        self.collection.create_index(VERSION_INDEX)
        # Otherwise the first peer to run would pay for writing the seed back.
        self.client.admin.command("fsync")

    def _make_template(self) -> None:
        self._template.drop()
        for chunk in _encoded(self.documents):
            self._template.insert_many(chunk, ordered=False)

    def verify(self) -> None:
        """Look whether all orders are migrated, and some of them in every byte that matters.

        Raises:
            WrongResultError: They are not.
        """
        done = self.collection.count_documents({"schema_version": 2, "shipping.address.city": {"$exists": True}})
        old = self.collection.count_documents({"address": {"$exists": True}})
        if done != self.documents or old:
            raise WrongResultError(f"{done} of {self.documents} orders are migrated, {old} still have their old field.")
        numbers = random.Random(self.documents).sample(range(self.documents), min(_SAMPLE, self.documents))
        for number in numbers:
            expected = order(number)
            expected |= {"schema_version": 2, "shipping": {"address": expected.pop("address")}}
            # Peers that count revisions did so, and peers that replace documents put the fields in another order.
            found = self.collection.find_one({"_id": expected["_id"]}) or {}
            if {**found, "revision": 0} != expected:
                raise WrongResultError("A migrated order is not what it should be.")


def order(number: int) -> dict[str, Any]:
    """One order in its old shape, made from its number."""
    # Knuth's multiplicative hash: spread like chance, the same everywhere, and quick enough for a million.
    chance = number * 2_654_435_761 % 2**32
    return {
        "_id": order_id(number),
        "schema_version": 1,
        "revision": 0,
        "customer": f"customer-{chance % 49_999:05}",
        "email": f"customer{chance % 49_999}@example.org",
        "status": ("paid", "packed", "sent")[chance % 3],
        "address": {
            "street": f"Harbour Street {chance % 199}",
            "city": _CITIES[chance % 8],
            "zip": f"{10_000 + chance % 89_989}",
            "country": "NO",
        },
        "items": [
            {"sku": f"sku-{(chance + line) % 9973:05}", "quantity": 1 + chance % 4, "price": 19.5 + line}
            for line in range(2)
        ],
        "total": chance % 49_999 / 100,
        "created_at": _FIRST_DAY + timedelta(seconds=number),
        "note": _NOTE[chance % 40 :],
    }


def order_id(number: int) -> ObjectId:
    """The id of an order; they sort as their numbers do."""
    return ObjectId(number.to_bytes(12, "big"))


def _encoded(documents: int) -> Iterator[list[RawBSONDocument]]:
    """All orders, in lists that one insert takes."""
    for start in range(0, documents, _CHUNK):
        numbers = range(start, min(start + _CHUNK, documents))
        yield [RawBSONDocument(bson.encode(order(number))) for number in numbers]
