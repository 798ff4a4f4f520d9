"""All types of ``_id`` in one collection, by version and by predicate, with and without an index, under a collation."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from engine_kit import Document, Rig, old, orders, piped
from migronaut.core.state import Partitioning, Status
from migronaut.versioning import CODEC

PER_TYPE = 30
SPLIT = Partitioning(min_documents=10)


def every_id() -> list[Any]:
    """Some of each type, all different to the server, in random order."""
    many = range(PER_TYPE)
    start = datetime(2024, 1, 1)
    ids: list[Any] = [MinKey(), MaxKey(), None, True, False, float("nan"), float("inf"), float("-inf")]
    ids += [Code("x"), Code("y"), Code("x", {"a": 1}), Code("y", {"a": 1})]
    ids += [f"key {number}" for number in many] + ["", "Straße", "\U0001f680"]
    ids += list(many) + [Int64(2**40 + number) for number in many] + [number + 0.5 for number in many]
    ids += [Decimal128(f"{number}.25") for number in many]
    ids += [ObjectId() for _ in many] + [Timestamp(1_700_000_000 + number, 1) for number in many]
    ids += [start + timedelta(days=number) for number in many] + [start - timedelta(days=365 * 300)]
    ids += [Binary(UUID(int=2**100 + number).bytes, 4) for number in many]
    ids += [Binary(UUID(int=2**90 + number).bytes, 3) for number in many]
    ids += [Binary(bytes([number, 1]), 0) for number in many] + [Binary(b"x", 128), Binary(b"", 0)]
    ids += [{"region": "eu", "number": number} for number in many] + [{}]
    random.Random(3).shuffle(ids)
    return ids


def seeded(db: Database[Any], ids: list[Any], **more: Any) -> None:
    db.orders.with_options(CODEC).insert_many([old(0) | more | {"_id": id_} for id_ in ids])


def assert_migrated(db: Database[Any], count: int) -> None:
    once = {"migrations": 1, "shipping.address": "street of 0", "address": {"$exists": False}}
    assert db.orders.count_documents(once) == count == db.orders.count_documents({})


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("index", [False, True])
def test_ids_of_every_type_by_version(db: Database[Any], lanes: int, index: bool) -> None:
    ids = every_id()
    seeded(db, ids)
    if index:
        db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig = Rig(db=db)
    rig.register(orders(max_parallel=lanes, batch_size=7, partitions=SPLIT))
    rig.coordinate()
    assert sum(rig.status().partitions.values()) >= (12 if lanes == 1 else 13)
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_migrated(db, len(ids))
    assert (rig.totals.migrated, rig.totals.scanned) == (len(ids), len(ids))
    assert rig.status().pass_number == 1


@pytest.mark.parametrize("lanes", [1, 4])
def test_ids_of_every_type_by_predicate(db: Database[Any], lanes: int) -> None:
    ids = every_id()
    seeded(db, ids, schema_version="ours, and no number")
    rig = Rig(db=db)
    by_predicate = {"from_version": None, "to_version": None, "filter": {"shipping": {"$exists": False}}}
    rig.register(orders(max_parallel=lanes, batch_size=7, partitions=SPLIT, **by_predicate))
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_migrated(db, len(ids))
    assert db.orders.count_documents({"schema_version": "ours, and no number"}) == len(ids)
    assert rig.totals.migrated == len(ids)
    assert rig.status().pass_number == 1


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_ids_of_every_type_by_a_pipeline(db: Database[Any], lanes: int, guard: str) -> None:
    ids = every_id()
    seeded(db, ids)
    rig = Rig(db=db)
    rig.register(piped(max_parallel=lanes, batch_size=7, partitions=SPLIT, guard=guard))
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_migrated(db, len(ids))
    assert (rig.totals.migrated, rig.totals.scanned, rig.totals.skipped) == (len(ids), len(ids), 0)
    assert rig.status().pass_number == 1


def test_ids_of_every_type_on_a_standalone_server(standalone_db: Database[Any]) -> None:
    ids = every_id()
    seeded(standalone_db, ids)
    rig = Rig(db=standalone_db)
    rig.register(orders(max_parallel=4, batch_size=7, partitions=SPLIT, revision_field="rev"))
    assert rig.run(lanes=4) is Status.COMPLETED
    assert_migrated(standalone_db, len(ids))
    assert rig.totals.migrated == len(ids)
    assert standalone_db.orders.count_documents({"rev": 1}) == len(ids)


@pytest.mark.parametrize("index", [False, True])
def test_documents_without_a_version_are_of_version_0(db: Database[Any], index: bool) -> None:
    for number, stamp in enumerate([{}, {"schema_version": None}, {"schema_version": 0}, {"schema_version": 0.0}] * 20):
        doc = old(number) | stamp
        if not stamp:
            del doc["schema_version"]
        db.orders.insert_one(doc)
    db.orders.insert_one({"_id": "newer", "schema_version": 3})
    if index:
        db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig = Rig(db=db)
    rig.register(orders(from_version=0, to_version=1, max_parallel=4, partitions=SPLIT))
    assert rig.run(lanes=4) is Status.COMPLETED
    assert db.orders.count_documents({"schema_version": 1, "migrations": 1, "shipping": {"$exists": True}}) == 80
    assert db.orders.find_one({"_id": "newer"}) == {"_id": "newer", "schema_version": 3}
    assert rig.totals.migrated == 80


def test_a_filter_narrows_what_is_migrated(db: Database[Any]) -> None:
    db.orders.insert_many([old(number, region="eu" if number % 2 else "us") for number in range(40)])
    rig = Rig(db=db)
    rig.register(orders(filter={"region": "eu"}))
    assert rig.run() is Status.COMPLETED
    assert db.orders.count_documents({"schema_version": 2, "region": "eu"}) == 20
    assert db.orders.count_documents({"schema_version": 1, "region": "us", "address": {"$exists": True}}) == 20


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_collection_that_ignores_case(db: Database[Any], lanes: int) -> None:
    db.create_collection("orders", collation={"locale": "en", "strength": 2})
    ids = [f"{'kK'[number % 2]}ey {number:03d}" for number in range(200)] + [*range(20)]
    seeded(db, ids)
    db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig = Rig(db=db)
    rig.register(orders(max_parallel=lanes, batch_size=7, partitions=SPLIT))
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_migrated(db, len(ids))
    assert (rig.status().pass_number, rig.totals.migrated, rig.totals.scanned) == (1, 220, 220)


ODD: list[tuple[str, Any]] = [
    ("int32", 1),
    ("int64", Int64(1)),
    ("double", 1.0),
    ("minus zero", -0.0),
    ("nan", float("nan")),
    ("decimal", Decimal128("1.10")),
    ("decimal nan", Decimal128("NaN")),
    ("date", datetime(2024, 1, 1)),
    ("ancient", RawBSONDocument(b"\x10\x00\x00\x00\x09d\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00")),
    ("uuid 3", Binary(b"0" * 16, 3)),
    ("uuid 4", Binary(b"0" * 16, 4)),
    ("binary", Binary(b"0", 5)),
    ("regex", bson.Regex("^a", "ix")),
    ("code", Code("f()", {"b": 1, "a": 2})),
    ("min", MinKey()),
    ("max", MaxKey()),
    ("timestamp", Timestamp(1, 2)),
    ("ref", {"$ref": "c", "$id": 1, "z": 1, "a": 2}),
    ("order", {"z": 1, "a": {"y": 1.0, "b": Int64(2)}}),
    ("list", [1, Int64(1), 1.0, None, {"b": 1, "a": 1}]),
    ("a.b", 1),
    ("null", None),
]


def test_fields_that_were_left_alone_survive_to_the_byte(db: Database[Any]) -> None:
    """Types, key order, odd keys: all that the transform did not touch."""
    odd = db.orders.with_options(CODEC)
    db.command("insert", "orders", documents=[dict([("_id", 1), *ODD, ("address", "x"), ("schema_version", 1)])])
    (before,) = db.orders.with_options(CODEC.with_options(document_class=RawBSONDocument)).find()
    rig = Rig(db=db)
    rig.register(orders())
    assert rig.run() is Status.COMPLETED, rig.status().errors
    (after,) = db.orders.with_options(CODEC.with_options(document_class=RawBSONDocument)).find()
    kept = len(bson.encode(dict(ODD)))
    assert odd.count_documents({"schema_version": 2}) == 1
    # Behind the length and _id stand the untouched fields, byte for byte as they were.
    id_ = 4 + 1 + 4 + 4
    untouched = before.raw[id_ : id_ + kept - 5]
    assert untouched == after.raw[id_ : id_ + kept - 5]
    assert len(untouched) > 300


def changes_one(doc: Document) -> Document:
    doc["list"][0] = "changed"
    return doc


def test_the_types_of_neighbours_in_a_changed_container_survive(db: Database[Any]) -> None:
    db.command("insert", "orders", documents=[{"_id": 1, "list": [0, Int64(1), 1.0, -0.0], "schema_version": 1}])
    rig = Rig(db=db)
    rig.register(orders(migrate=changes_one))
    assert rig.run() is Status.COMPLETED
    (after,) = db.orders.with_options(CODEC).find()
    assert bson.encode({"": after["list"]}) == bson.encode({"": ["changed", Int64(1), 1.0, -0.0]})
