"""Documents that cannot be migrated: each is a document error within the budget, and its neighbours are migrated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from pymongo.database import Database

from engine_kit import NAME, Document, Rig, at, old, orders, seeded, to_shipping
from migronaut.core.lane import Outcome
from migronaut.core.state import Partitioning, PartitionStatus, Status
from migronaut.engine.operator import controls
from migronaut.engine.states import Request

ONE_OF_2000 = 1234
BAD = 7
Breaks = Callable[[Document], object]


def raising(doc: Document) -> Document:
    if doc["_id"] == ONE_OF_2000:
        raise ValueError(f"secret {doc['address']}")
    return to_shipping(doc)


def corrected(seen: list[Any]) -> Callable[[Document], Document]:
    """The mended migration; it notes the documents that it is given."""

    def migrate(doc: Document) -> Document:
        seen.append(doc["_id"])
        return to_shipping(doc)

    return migrate


@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_without_a_budget_one_bad_document_fails_the_migration(db: Database[Any], guard: str) -> None:
    seeded(db, 2000)
    rig = Rig(db=db)
    rig.register(orders(migrate=raising, batch_size=100, guard=guard))
    assert rig.run() is Status.FAILED
    status = rig.status()
    assert status.last_error == "1 document could not be migrated; max_document_errors allows 0"
    assert (status.left_out, status.totals.failed) == (1, 1)
    assert rig.state.bad_ids == (ONE_OF_2000,)
    (error,) = status.errors
    assert error.kind == "transform-raised"
    assert "ValueError at line" in error.message
    assert "secret" not in str(status)
    assert "address" not in error.message
    # Not one of its batch was written: the retry goes on there.
    assert db.orders.count_documents({"migrations": 1}) == status.totals.migrated == 1200


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_budget_counts_over_all_lanes(db: Database[Any], lanes: int) -> None:
    seeded(db, 400)

    def migrate(doc: Document) -> Document:
        return {} if doc["_id"] % 50 == 0 else to_shipping(doc)

    rig = Rig(db=db)
    partitions = Partitioning(min_documents=50)
    rig.register(orders(migrate=migrate, max_parallel=lanes, max_document_errors=3, partitions=partitions))
    assert rig.run(lanes=lanes) is Status.FAILED
    status = rig.status()
    assert 4 <= status.left_out <= 4 + lanes
    assert status.left_out == len(rig.state.bad_ids) == status.totals.failed
    assert status.leases == ()


def test_a_bad_document_found_while_somebody_pauses_fails_it_after_the_resume(db: Database[Any]) -> None:
    """Neither the click nor the finding is lost, and the partition is not blamed."""
    seeded(db, 30)
    rig = Rig(db=db)
    rig.interrupt = at("documents.read", lambda: controls.pause(rig.ports, NAME, Request()), arrival=2)
    rig.register(orders(migrate=lambda doc: None if doc["_id"] == 15 else to_shipping(doc)))
    rig.coordinate()
    assert rig.slice().outcome is Outcome.PAUSED
    assert rig.status().status == Status.PAUSED
    assert rig.status().leases == ()
    controls.resume(rig.ports, NAME, Request())
    assert rig.run() is Status.FAILED
    assert rig.status().left_out == 1


@pytest.mark.parametrize("budget", [1, 5])
@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_within_the_budget_all_others_are_migrated(db: Database[Any], guard: str, budget: int) -> None:
    seeded(db, 2000)
    rig = Rig(db=db)
    rig.register(orders(migrate=raising, batch_size=100, max_document_errors=budget, guard=guard))
    assert rig.run() is Status.COMPLETED
    status = rig.status()
    assert (status.left_out, status.totals.failed, status.totals.migrated) == (1, 1, 1999)
    assert rig.state.bad_ids == (ONE_OF_2000,)
    assert db.orders.count_documents({"migrations": 1}) == 1999
    assert db.orders.find_one({"_id": ONE_OF_2000}) == old(ONE_OF_2000)


def test_a_retry_with_the_corrected_file_touches_only_the_one(db: Database[Any]) -> None:
    seeded(db, 2000)
    seen: list[Any] = []
    rig = Rig(db=db)
    rig.register(orders(migrate=raising, batch_size=100, max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    rig.give(orders(migrate=corrected(seen), batch_size=100, max_document_errors=1), text="2")
    assert controls.repin(rig.ports, NAME, Request(by="ann", reason="fixed")).changed
    assert controls.retry(rig.ports, NAME, Request(by="ann"), from_start=False).changed
    assert rig.run() is Status.COMPLETED
    assert seen == [ONE_OF_2000]
    status = rig.status()
    assert (status.left_out, status.totals.migrated, status.errors, rig.state.bad_ids) == (0, 2000, (), ())
    assert db.orders.count_documents({"migrations": 1}) == 2000
    assert rig.actions() == ["plan", "complete", "repin", "reopen", "complete"]


def test_a_failed_one_goes_on_where_it_was_after_the_correction(db: Database[Any]) -> None:
    seeded(db, 2000)
    seen: list[Any] = []
    rig = Rig(db=db)
    rig.register(orders(migrate=raising, batch_size=100))
    assert rig.run() is Status.FAILED
    rig.give(orders(migrate=corrected(seen), batch_size=100), text="2")
    controls.repin(rig.ports, NAME, Request())
    controls.retry(rig.ports, NAME, Request(), from_start=False)
    assert rig.run() is Status.COMPLETED
    assert seen == list(range(1200, 2000))
    assert (rig.totals.migrated, rig.status().left_out) == (2000, 0)
    assert db.orders.count_documents({"migrations": 1}) == 2000


def nested(depth: int) -> Document:
    doc: Document = {}
    for _ in range(depth):
        doc = {"a": doc}
    return doc


BROKEN: list[tuple[str, Breaks]] = [
    ("not-a-mapping", lambda doc: None),
    ("not-a-mapping", lambda doc: [doc]),
    ("id-changed", lambda doc: doc | {"_id": "another"}),
    ("id-changed", lambda doc: {name: value for name, value in doc.items() if name != "_id"}),
    ("id-changed", lambda doc: doc | {"_id": float(doc["_id"])}),
    ("bad-key", lambda doc: doc | {"$set": 1}),
    ("bad-key", lambda doc: doc | {"a.b": 1}),
    ("bad-key", lambda doc: doc | {"": 1}),
    ("bad-key", lambda doc: doc | {"a\0": 1}),
    ("bad-key", lambda doc: doc | {5: 1}),
    ("not-encodable", lambda doc: doc | {"a": {"b\0": 1}}),
    ("not-encodable", lambda doc: doc | {"a": object()}),
    ("not-encodable", lambda doc: doc | {"a": 2**64}),
    ("not-encodable", lambda doc: doc | {"a": {1: 2}}),
    ("refused-15", lambda doc: doc | {"a": nested(150), "b": nested(190)}),
    ("too-large", lambda doc: doc | {"a": "x" * (17 << 20)}),
    ("too-large", lambda doc: doc | {"a": "x" * (9 << 20)}),  # the update is small enough, the document is not
    ("transform-raised", lambda doc: doc["no such field"]),
]


@pytest.mark.parametrize(("kind", "breaks"), BROKEN)
def test_an_unusable_result_is_a_document_error(db: Database[Any], kind: str, breaks: Breaks) -> None:
    seeded(db, 20)
    db.orders.update_one({"_id": BAD}, {"$set": {"ballast": "z" * (8 << 20 if kind == "too-large" else 1)}})

    def migrate(doc: Document) -> object:
        new = to_shipping(dict(doc))
        return breaks(new) if doc["_id"] == BAD else new

    rig = Rig(db=db)
    rig.register(orders(migrate=migrate, batch_size=20, max_document_errors=1))
    assert rig.run() is Status.COMPLETED, rig.status().last_error
    status = rig.status()
    assert [error.kind for error in status.errors] == [kind]
    assert rig.state.bad_ids == (BAD,)
    assert (status.totals.migrated, status.totals.failed, status.totals.scanned) == (19, 1, 20)
    assert db.orders.count_documents({"migrations": 1}) == 19
    assert db.orders.count_documents({"_id": BAD, "address": f"street of {BAD}", "schema_version": 1}) == 1


def test_a_stored_document_that_is_no_utf_8_is_a_document_error(db: Database[Any]) -> None:
    seeded(db, 20)
    broken = bson.encode(old("broken")).replace(b"street", b"str\xff\xfet")
    db.command("insert", "orders", documents=[bson.raw_bson.RawBSONDocument(broken)])
    rig = Rig(db=db)
    rig.register(orders(max_document_errors=1))
    assert rig.run() is Status.COMPLETED, rig.status().last_error
    assert [error.kind for error in rig.status().errors] == ["not-decodable"]
    assert rig.state.bad_ids == ("broken",)
    assert rig.totals.migrated == 20


def test_a_date_that_python_has_not_is_migrated_like_any_other(db: Database[Any]) -> None:
    far = bson.datetime_ms.DatetimeMS(2**60)
    db.orders.insert_many([old(1, at=far), old(2, at=datetime(2024, 1, 1))])
    rig = Rig(db=db)
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    assert db.orders.count_documents({"_id": 1, "migrations": 1, "at": far}) == 1


def test_a_version_that_is_no_number_is_none_of_ours(db: Database[Any]) -> None:
    seeded(db, 20)
    db.orders.insert_one(old("odd", rev="x"))
    rig = Rig(db=db)
    rig.register(orders(revision_field="rev", max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert [error.kind for error in rig.status().errors] == ["invalid-version"]


def test_an_exception_among_many_results_fails_its_document_only(db: Database[Any]) -> None:
    seeded(db, 20)

    def migrate_many(docs: list[Document]) -> list[object]:
        return [ValueError("no") if doc["_id"] == BAD else to_shipping(doc) for doc in docs]

    rig = Rig(db=db)
    rig.register(orders(migrate=None, migrate_many=migrate_many, max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert rig.state.bad_ids == (BAD,)
    assert db.orders.count_documents({"migrations": 1}) == 19


@pytest.mark.parametrize("results", [lambda docs: docs[:-1], lambda docs: None, lambda docs: 1 / 0])
def test_many_results_of_a_wrong_length_fail_the_slice_then_the_migration(
    db: Database[Any], results: Callable[[list[Document]], object]
) -> None:
    seeded(db, 20)
    rig = Rig(db=db)
    rig.register(orders(migrate=None, migrate_many=results, max_slice_failures=2))
    rig.coordinate()
    for _ in range(2):
        assert rig.status().partitions[PartitionStatus.FAILED] == 0
        result = rig.slice()
        assert result.error is not None
    assert rig.status().partitions[PartitionStatus.FAILED] == 1
    assert rig.run() is Status.FAILED
    status = rig.status()
    (error,) = status.partition_errors
    assert (error.partition, error.failures, error.failed) == (0, 2, True)
    assert status.last_error == f"1 partition failed 2 times in a row: {error.message}"
    assert error.message
    assert status.partitions[PartitionStatus.RUNNING] == 0
    assert db.orders.count_documents({"schema_version": 1, "address": {"$exists": True}}) == 20
    rig.give(orders(), text="2")
    controls.repin(rig.ports, NAME, Request())
    controls.retry(rig.ports, NAME, Request(), from_start=False)
    assert rig.run() is Status.COMPLETED
    assert rig.totals.migrated == 20
    assert rig.status().partition_errors == ()


def test_a_revision_that_cannot_be_counted_up_is_a_document_error(db: Database[Any]) -> None:
    db.orders.insert_many([old(number, rev=Int64(2**63 - 1) if number == BAD else 1) for number in range(20)])
    rig = Rig(db=db)
    rig.register(orders(revision_field="rev", max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert rig.state.bad_ids == (BAD,)
    assert [error.kind for error in rig.status().errors] == ["invalid-version"]
    assert db.orders.count_documents({"rev": 2, "migrations": 1}) == 19


def test_a_document_whose_revision_an_application_spoiled_meanwhile_is_not_counted_as_ours(db: Database[Any]) -> None:
    seeded(db, 20)
    db.orders.update_many({}, {"$set": {"rev": 1}})
    rig = Rig(db=db)
    spoiled = {"$set": {"rev": "spoiled", "schema_version": 2}}
    rig.interrupt = at("documents.read", lambda: db.orders.update_one({"_id": BAD}, spoiled))
    rig.register(orders(revision_field="rev", guard="revision"))
    assert rig.run() is Status.COMPLETED
    assert (rig.totals.migrated, rig.totals.skipped) == (19, 1)
    assert db.orders.find_one({"_id": BAD}) == old(BAD) | {"rev": "spoiled", "schema_version": 2}
