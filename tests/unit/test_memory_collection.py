"""The application's side of an in-memory collection, and what it does to a transaction beside it."""

from __future__ import annotations

import bson
import pytest

from migronaut.core.ports import WriteConflictError, WriteRefusedError
from migronaut.memory import MemoryCollection, MemoryServer, QueryUnsupportedError


@pytest.fixture
def collection() -> MemoryCollection:
    made = MemoryServer().collection("orders")
    made.insert({"v": 1, "_id": 1}, {"_id": 2, "v": 2})
    return made


def test_the_id_comes_first_as_on_a_server(collection: MemoryCollection) -> None:
    assert list(collection.get(1) or {}) == ["_id", "v"]


def test_what_is_given_and_what_is_got_are_copies(collection: MemoryCollection) -> None:
    inner = {"a": 1}
    collection.insert({"_id": 3, "inner": inner})
    inner["a"] = 2
    (collection.get(3) or {})["inner"]["a"] = 3
    (collection.find({"_id": 3})[0])["inner"]["a"] = 4
    assert collection.get(3) == {"_id": 3, "inner": {"a": 1}}


def test_a_replacement_keeps_only_the_id(collection: MemoryCollection) -> None:
    assert collection.replace(1.0, {"w": 1})
    assert collection.get(1) == {"_id": 1, "w": 1}


def test_writes_to_a_missing_document_say_so(collection: MemoryCollection) -> None:
    assert not collection.replace(9, {})
    assert not collection.update(9, {"$set": {"v": 1}})
    assert not collection.delete(9)


def test_a_deleted_document_is_gone_and_its_unique_value_free(collection: MemoryCollection) -> None:
    collection.unique("v")
    assert collection.delete(1)
    collection.insert({"_id": 3, "v": 1})
    assert [document["_id"] for document in collection.find()] == [2, 3]


def test_inserts_land_all_or_none(collection: MemoryCollection) -> None:
    with pytest.raises(WriteRefusedError) as refused:
        collection.insert({"_id": 3}, {"_id": 1.0})
    assert refused.value.code == 11000
    assert collection.get(3) is None


def test_an_id_cannot_change(collection: MemoryCollection) -> None:
    with pytest.raises(WriteRefusedError) as refused:
        collection.update(1, {"$set": {"_id": 3}})
    assert refused.value.code == 66


@pytest.mark.parametrize("update", [{"$push": {"v": 1}}, {"$set": {"a.b": 1}}])
def test_an_unknown_update_is_refused(collection: MemoryCollection, update: dict[str, object]) -> None:
    with pytest.raises(QueryUnsupportedError):
        collection.update(1, update)


def test_a_document_that_no_driver_can_decode_can_be_stored_and_found(collection: MemoryCollection) -> None:
    broken = bson.encode({"_id": 3, "text": "??"}).replace(b"??", b"\xff\xfe")
    collection.insert_raw(broken)
    assert [document["_id"] for document in collection.find({"text": {"$type": "string"}})] == [3]


def test_the_first_of_two_writers_wins(collection: MemoryCollection) -> None:
    work = collection.begin()
    assert work.delete((10, 1, 1))
    collection.update(1, {"$set": {"v": 5}})
    with pytest.raises(WriteConflictError):
        work.commit()
    assert collection.get(1) == {"_id": 1, "v": 5}


def test_a_unique_value_taken_meanwhile_is_a_conflict(collection: MemoryCollection) -> None:
    collection.unique("v")
    work = collection.begin()
    work.insert(bson.encode({"_id": 3, "v": 3}))
    collection.insert({"_id": 4, "v": 3})
    with pytest.raises(WriteConflictError):
        work.commit()
    assert collection.get(3) is None
