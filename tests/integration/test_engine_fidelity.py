"""Documents that Python cannot hold as they are stored: nothing of them is lost, and their neighbours are migrated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from engine_kit import Document, Rig, assert_migrated_once, old, orders, seeded, to_shipping
from migronaut.core.state import Status
from migronaut.engine.stopping import StopEvent
from migronaut.testing import migrate_in_memory
from migronaut.versioning import document

VERSION = bson.encode({"schema_version": 1})[4:-1]
ADDRESS = bson.encode({"address": "x"})[4:-1]
SYMBOL, UNDEFINED = b"\x0esym\x00\x02\x00\x00\x00s\x00", b"\x06und\x00"
REGEX = b"\x0bre\x00a\x00gi\x00"
POINTER = b"\x0cptr\x00\x02\x00\x00\x00c\x00" + b"\x01" * 12
NUMBER = bson.encode({"n": 1})[4:-1]


def element(name: str, value: Any) -> bytes:
    return bson.encode({name: value})[4:-1]


def inside(name: str, *parts: bytes) -> bytes:
    return b"\x03" + name.encode() + b"\0" + document(*parts)


def stored_raw(db: Database[Any], id_: Any) -> bytes:
    (raw,) = [one.raw for one in db.orders.with_options(bson.CodecOptions(RawBSONDocument)).find({"_id": id_})]
    return bytes(raw)


def insert_raw(db: Database[Any], id_: Any, *parts: bytes) -> bytes:
    raw = document(element("_id", id_), VERSION, *parts)
    db.command("insert", "orders", documents=[RawBSONDocument(raw)])
    return raw


def renamed(doc: Document) -> Document:
    doc["title"] = doc.pop("name")
    return doc


def sized(doc: Document) -> Document:
    doc["prefs"]["size"] = 2
    return doc


def numbered(doc: Document) -> Document:
    doc["box"]["n"] = 2
    return doc


LOSSY: list[tuple[Callable[[Document], Document], list[bytes]]] = [
    (renamed, [element("name", ""), element("x", 1), element("name", "v")]),
    (renamed, [element("name", 1), element("x", "a name\0"[:-1]), element("name", "v")]),
    (sized, [inside("prefs", element("lang", "de"), element("lang", "en"), element("size", 1))]),
    (numbered, [inside("box", SYMBOL, NUMBER)]),
    (numbered, [inside("box", UNDEFINED, NUMBER)]),
    (numbered, [inside("box", REGEX, NUMBER)]),
    (numbered, [inside("box", POINTER, NUMBER)]),
    (renamed, [b"\x0ename" + SYMBOL[4:]]),
    (renamed, [b"\x06name\0"]),
]


@pytest.mark.parametrize(("migrate", "parts"), LOSSY)
def test_what_reading_does_not_keep_is_not_overwritten(
    db: Database[Any], migrate: Callable[[Document], Document], parts: list[bytes]
) -> None:
    raw = insert_raw(db, 1, *parts)
    rig = Rig(db=db)
    rig.register(orders(migrate=migrate, max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert [error.kind for error in rig.status().errors] == ["not-faithful"]
    assert rig.state.bad_ids == (1,)
    assert stored_raw(db, 1) == raw


@pytest.mark.parametrize(
    "parts",
    [
        [inside("box", SYMBOL, UNDEFINED, REGEX, POINTER, NUMBER)],
        [element("other", 1), element("other", 2)],
        [element("text", "my address"), element("last_address", "x")],
    ],
)
def test_what_is_left_alone_stays_as_it_is_to_the_byte(db: Database[Any], parts: list[bytes]) -> None:
    insert_raw(db, 1, *parts, ADDRESS)
    rig = Rig(db=db)
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    stored = stored_raw(db, 1)
    assert all(part in stored for part in parts)
    assert rig.totals.migrated == 1


class Incomparable:
    """Like the "not available" of a data frame: it answers no comparison."""

    def __eq__(self, other: object) -> Any:
        raise TypeError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


class Undecided(Incomparable):  # noqa: PLW1641 - as its base
    def __eq__(self, other: object) -> Any:
        return [True, False]


@pytest.mark.parametrize("value", [Incomparable(), Undecided(), {"a": Incomparable()}, [Undecided()]])
def test_a_value_that_cannot_be_compared_is_an_error_of_its_document(db: Database[Any], value: Any) -> None:
    def migrate(doc: Document) -> Document:
        if doc["_id"] == 7:
            doc["hits"] = doc["tags"] = value
        return to_shipping(doc)

    seeded(db, 20, tags=[1], hits={"a": 1})
    rig = Rig(db=db)
    rig.register(orders(migrate=migrate, max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert [error.kind for error in rig.status().errors] == ["not-encodable"]
    assert rig.totals.migrated == 19


BROKEN = [b"\x05bad\0\x05\0\0\0\x04" + b"x" * 5, b"\x05bad\0\x06\0\0\0\x02\xff\0\0\0xx"]


@pytest.mark.parametrize("field", BROKEN)
def test_a_document_that_cannot_be_decoded_is_named_and_its_neighbours_are_migrated(
    db: Database[Any], field: bytes
) -> None:
    seeded(db, 20)
    db.orders.delete_one({"_id": 7})
    raw = insert_raw(db, 7, ADDRESS, field)
    rig = Rig(db=db)
    rig.register(orders(max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert [error.kind for error in rig.status().errors] == ["not-decodable"]
    assert rig.state.bad_ids == (7,)
    assert stored_raw(db, 7) == raw
    assert_migrated_once(_others(db))


def _others(db: Database[Any]) -> dict[Any, Document]:
    return {doc["_id"]: doc for doc in db.orders.find({"_id": {"$ne": 7}})}


def test_an_id_that_cannot_be_decoded_is_told_in_one_sentence(db: Database[Any]) -> None:
    db.command("insert", "orders", documents=[RawBSONDocument(document(BROKEN[0].replace(b"bad", b"_id"), VERSION))])
    rig = Rig(db=db)
    rig.register(orders(max_slice_failures=1))
    assert rig.run() is Status.FAILED
    assert "an _id that is not valid BSON" in (rig.status().last_error or "")


def test_what_a_function_raises_while_its_lane_is_to_stop_counts_nothing(db: Database[Any]) -> None:
    seeded(db, 30)
    stop = StopEvent()

    def migrate(doc: Document, ctx: Any) -> Document:
        if doc["_id"] == 15:
            stop.set("shutdown")
        if ctx.stop.is_set():
            raise RuntimeError("asked to stop")
        return to_shipping(doc)

    rig = Rig(db=db)
    rig.register(orders(migrate=migrate))
    assert rig.run(stop=stop) is None
    assert (rig.totals.failed, rig.status().partition_errors, rig.totals.migrated) == (0, (), 10)
    assert not rig.status().leases
    rig.give(orders())
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())


@pytest.mark.parametrize("many", [False, True])
def test_an_exception_that_is_none_ends_no_thread_and_leaves_no_lease(db: Database[Any], many: bool) -> None:
    def interrupt(given: Any) -> Any:
        raise KeyboardInterrupt

    seeded(db, 5)
    rig = Rig(db=db)
    way = {"migrate": None, "migrate_many": interrupt} if many else {"migrate": interrupt}
    rig.register(orders(**way, max_slice_failures=1))
    assert rig.run() is Status.FAILED
    assert not rig.status().leases


def test_large_ids_that_cannot_all_be_remembered_exceed_the_budget(db: Database[Any]) -> None:
    db.orders.insert_many([old(f"{number:04d}" + "x" * 20_000) for number in range(900)])
    rig = Rig(db=db)

    def migrate(doc: Document) -> Document:
        raise ValueError("no")

    rig.register(orders(migrate=migrate, max_document_errors=1000, batch_size=100))
    assert rig.run() is Status.FAILED
    assert "too large to be remembered" in (rig.status().last_error or "")


@pytest.mark.slow
def test_three_ids_of_megabytes_exceed_the_budget_too(db: Database[Any]) -> None:
    for number in range(3):
        db.orders.insert_one(old(f"{number}" + "x" * 4_000_000))
    rig = Rig(db=db)
    rig.register(orders(migrate=lambda doc: 1, max_document_errors=1000))
    assert rig.run() is Status.FAILED
    assert "too large to be remembered" in (rig.status().last_error or "")


def test_in_memory_it_is_the_same() -> None:
    done = migrate_in_memory(
        orders(migrate=numbered, max_document_errors=1), [{"_id": 1, "schema_version": 1, "box": {"n": 1}}]
    )
    assert done.documents[0]["box"] == {"n": 2}
