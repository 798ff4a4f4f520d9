"""Results that only the server, or a second look at the filter, can refuse: found in the middle of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from engine_kit import Document, Rig, old, orders, seeded, to_shipping
from migronaut.core.state import Status

BAD = 7


@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_what_the_server_refuses_is_found_in_the_middle_of_a_batch(db: Database[Any], guard: str) -> None:
    """A unique index and a validator: those that offend are named, all the others are written."""
    seeded(db, 40)
    db.orders.create_index("number", unique=True, partialFilterExpression={"number": {"$exists": True}})
    db.command("collMod", "orders", validator={"forbidden": {"$exists": False}})

    def migrate(doc: Document) -> Document:
        number = doc["_id"]
        doc["number"] = 3 if number == 13 else number
        if number in {17, 18}:
            doc["forbidden"] = True
        return to_shipping(doc)

    rig = Rig(db=db)
    rig.register(orders(migrate=migrate, batch_size=40, max_document_errors=3, guard=guard))
    assert rig.run() is Status.COMPLETED
    status = rig.status()
    assert sorted(error.kind for error in status.errors) == ["refused-11000", "refused-121", "refused-121"]
    told = {error.kind: error.message for error in status.errors}
    assert "because of the unique index 'number_1'" in told["refused-11000"]
    assert "because of the validator of the collection" in told["refused-121"]
    assert sorted(rig.state.bad_ids) == [13, 17, 18]
    assert (status.totals.migrated, status.totals.failed) == (37, 3)
    assert db.orders.count_documents({"migrations": 1, "schema_version": 2}) == 37


INDEXED: list[tuple[str, Any, Any, Any]] = [
    ("16755", [("at", "2dsphere")], [1, 1], [999, 1]),
    ("13027", [("at", "2d")], [1, 1], [999, 1]),
    ("16766", [("at", "hashed")], 1, [1, 2]),
    ("171", [("at", 1), ("tags", 1)], 1, [1, 2]),
]


@pytest.mark.parametrize(("code", "index", "good", "bad"), INDEXED)
def test_a_value_that_an_index_cannot_take_is_a_document_error(
    db: Database[Any], code: str, index: Any, good: Any, bad: Any
) -> None:
    db.orders.insert_many([old(number, tags=[1, 2]) for number in range(20)])
    db.orders.create_index(index)

    def migrate(doc: Document) -> Document:
        return to_shipping(doc) | {"at": bad if doc["_id"] == BAD else good}

    rig = Rig(db=db)
    rig.register(orders(migrate=migrate, max_document_errors=1))
    assert rig.run() is Status.COMPLETED, rig.status().last_error
    (error,) = rig.status().errors
    assert error.kind == f"refused-{code}"
    assert "because of an index of the collection" in error.message
    assert rig.state.bad_ids == (BAD,)
    assert rig.totals.migrated == 19


@pytest.mark.parametrize("server", ["db", "standalone_db"])
def test_a_result_that_still_matches_its_filter_is_a_document_error(
    server: str, request: pytest.FixtureRequest
) -> None:
    """By predicate it would match for ever."""
    database: Database[Any] = request.getfixturevalue(server)
    seeded(database, 20)

    def migrate(doc: Document) -> Document:
        if doc["_id"] == BAD:
            return doc | {"changed": "but not in the field that counts"}
        return to_shipping(doc)

    rig = Rig(db=database)
    settings = {"from_version": None, "to_version": None, "filter": {"address": {"$exists": True}}}
    rig.register(orders(migrate=migrate, batch_size=20, max_document_errors=1, revision_field="rev", **settings))
    assert rig.run() is Status.COMPLETED
    assert [error.kind for error in rig.status().errors] == ["still-matches"]
    assert rig.state.bad_ids == (BAD,)
    assert database.orders.count_documents({"migrations": 1}) == rig.totals.migrated == 19


def test_a_result_that_changes_nothing_is_a_document_error_by_predicate(db: Database[Any]) -> None:
    seeded(db, 20)
    rig = Rig(db=db)
    settings = {"from_version": None, "to_version": None, "filter": {"address": {"$exists": True}}}
    rig.register(orders(migrate=lambda doc: doc, **settings))
    assert rig.run() is Status.FAILED
    assert {error.kind for error in rig.status().errors} == {"unchanged"}
