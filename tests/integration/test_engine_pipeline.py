"""Migrations by a pipeline: the server rewrites the documents, and nothing of the promises is weaker."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from engine_kit import (
    LANES,
    NAME,
    STATES,
    TO_SHIPPING,
    Document,
    Rig,
    assert_migrated_once,
    at,
    in_background,
    old,
    orders,
    piped,
    seeded,
    to_shipping,
)
from engine_lane import LEASE_TTL, start
from migronaut import Background
from migronaut.core.lane import Outcome
from migronaut.core.state import Direction, Partitioning, Status
from migronaut.engine.operator import controls
from migronaut.engine.operator.registering import register
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent
from migronaut.errors import InvalidMigrationError
from migronaut.versioning import CODEC

COUNT = 500
OFFENDERS = {3, 250, 251}


def offending(db: Database[Any], count: int) -> None:
    """Documents that the pipeline cannot change: it adds to a text."""
    seeded(db, count)
    db.orders.update_many({"_id": {"$in": [*OFFENDERS]}}, {"$set": {"hits": "SECRET"}})


ADDING = [*TO_SHIPPING, {"$set": {"hits": {"$add": ["$hits", 0]}}}]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("max_parallel", [1, 4])
def test_every_document_is_rewritten_once_and_counted(db: Database[Any], indexed: bool, max_parallel: int) -> None:
    seeded(db, COUNT, rev=5)
    if indexed:
        db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig = Rig(db=db)
    rig.register(
        piped(batch_size=40, max_parallel=max_parallel, revision_field="rev", partitions=Partitioning(min_documents=50))
    )
    assert rig.run(lanes=max_parallel) is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert db.orders.count_documents({"rev": 6}) == COUNT
    totals = rig.totals
    assert (totals.scanned, totals.migrated, totals.skipped, totals.failed) == (COUNT, COUNT, 0, 0)
    assert totals.batches >= COUNT / 40
    assert rig.status().pass_number == 1
    assert rig.status().by_pipeline
    assert db[LANES].count_documents({"lease": {"$exists": True}}) == 0


def test_on_a_standalone_server_no_guard_is_needed(standalone_db: Database[Any]) -> None:
    seeded(standalone_db, COUNT)
    rig = Rig(db=standalone_db)
    rig.register(piped())
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())


def orders_in(db: Database[Any]) -> Collection[Any]:
    return db.orders.with_options(CODEC)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_ids_of_all_types_are_rewritten(db: Database[Any], batch_size: int) -> None:
    ids: list[Any] = ["a", 1, 2.5, None, True, {"a": 1}, {"b": {"c": 2}}, Int64(7), float("nan"), b"x", UUID(int=3)]
    orders_in(db).insert_many([old(id_) for id_ in ids])
    rig = Rig(db=db)
    rig.register(piped(batch_size=batch_size))
    assert rig.run() is Status.COMPLETED
    assert db.orders.count_documents({"migrations": 1, "schema_version": 2}) == len(ids)
    assert (rig.status().pass_number, rig.totals.skipped) == (1, 0)


def test_a_missing_version_counts_as_0_and_the_way_back_removes_it(db: Database[Any]) -> None:
    db.orders.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2, "schema_version": None}])
    before = list(db.orders.find({}, {"schema_version": 0}))
    background = Background(
        collection="orders",
        from_version=0,
        to_version=3,
        pipeline=[{"$set": {"b": "$a"}}, {"$unset": ["a"]}],
        revert_pipeline=[{"$set": {"a": "$b"}}, {"$unset": ["b"]}],
    )
    rig = Rig(db=db)
    rig.register(background)
    assert rig.run() is Status.COMPLETED
    assert list(db.orders.find({}, {"_id": 0})) == [{"b": 1, "schema_version": 3}, {"b": 2, "schema_version": 3}]
    register(rig.ports, NAME, direction=Direction.REVERT, registration="back", request=Request())
    assert rig.run() is Status.COMPLETED
    assert list(db.orders.find()) == before


def test_by_predicate_it_runs_until_nothing_matches(db: Database[Any]) -> None:
    db.orders.insert_many([{"_id": number, "address": "x"} for number in range(COUNT)])
    rig = Rig(db=db)
    rig.register(piped(from_version=None, to_version=None, filter={"shipping": {"$exists": False}}, batch_size=30))
    assert rig.run() is Status.COMPLETED
    assert db.orders.count_documents({"migrations": 1, "schema_version": {"$exists": False}}) == COUNT


def test_a_pipeline_whose_result_matches_as_before_changes_nothing(db: Database[Any]) -> None:
    seeded(db, COUNT)
    before = stored(db)
    rig = Rig(db=db)
    stages = [{"$set": {"other": 1}}]
    rig.register(piped(from_version=None, to_version=None, filter={"shipping": {"$exists": False}}, pipeline=stages))
    assert rig.run() is Status.FAILED
    assert {error.kind for error in rig.status().errors} == {"still-matches"}
    assert stored(db) == before


def test_documents_that_match_as_before_are_named_before_anything_is_written(db: Database[Any]) -> None:
    db.orders.insert_many([{"_id": number, "a": 1, "n": 0} for number in range(20)])
    rig = Rig(db=db)
    only_even = {"$cond": [{"$eq": [{"$mod": ["$_id", 5]}, 0]}, "$a", "$$REMOVE"]}
    rig.register(
        Background(
            collection="orders",
            filter={"a": {"$exists": True}},
            pipeline=[{"$set": {"a": only_even, "n": {"$add": ["$n", 1]}}}],
            max_document_errors=5,
        )
    )
    assert rig.run() is Status.COMPLETED
    assert sorted(rig.state.bad_ids) == [0, 5, 10, 15]
    assert {error.kind for error in rig.status().errors} == {"still-matches"}
    assert [doc["n"] for doc in db.orders.find().sort("_id")] == [int(number % 5 != 0) for number in range(20)]
    assert (rig.totals.migrated, rig.totals.failed, rig.status().pass_number) == (16, 4, 1)


COUNTS: list[tuple[Any, Any]] = [
    (None, 1),
    (0, 1),
    (41, 42),
    (2.0, 3.0),
    (Int64(2**40), 2**40 + 1),
    (-5, None),
    (0.5, None),
    (2.0**60, None),
    (Int64(2**63 - 1), None),
    ("text", None),
    (True, None),
    (datetime(2026, 1, 1), None),
    (Decimal128("3"), None),
]


@pytest.mark.parametrize(("before", "after"), COUNTS)
@pytest.mark.parametrize("stages", [TO_SHIPPING, [{"$replaceWith": {"shipping": {}, "migrations": 1, "rev": "$rev"}}]])
def test_revisions_are_counted_as_a_function_would(
    db: Database[Any], stages: list[Document], before: Any, after: Any
) -> None:
    db.orders.insert_one(old(1, rev=before))
    outcome = []
    for way in ({"migrate": to_shipping, "pipeline": None, "batch_size": 1}, {"pipeline": stages}):
        rig = Rig(db=db)
        rig.register(piped(revision_field="rev", max_document_errors=1, **way), text=str(way))
        rig.run()
        outcome.append((rig.documents()[1]["rev"], rig.state.bad_ids))
        db.drop_collection("orders")
        for name in (LANES, STATES):
            db.drop_collection(name)
        db.orders.insert_one(old(1, rev=before))
    by_function, by_pipeline = outcome
    assert by_pipeline == by_function == ((before, (1,)) if after is None else (after, ()))


@pytest.mark.parametrize("version", [[1, 9], Decimal128("1")])
def test_a_version_that_is_no_number_is_a_document_error(db: Database[Any], version: Any) -> None:
    db.orders.insert_one(old(1, schema_version=version))
    rig = Rig(db=db)
    rig.register(piped(max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert rig.state.bad_ids == (1,)
    assert rig.documents()[1] == old(1, schema_version=version)


def test_a_new_root_does_not_bring_a_revision_of_its_own(db: Database[Any]) -> None:
    db.orders.insert_one({"_id": 1, "schema_version": 1, "sub": {"rev": 99, "schema_version": 7, "a": 1}})
    rig = Rig(db=db)
    rig.register(piped(pipeline=[{"$replaceWith": "$sub"}], revision_field="rev"))
    assert rig.run() is Status.COMPLETED
    assert rig.documents()[1] == {"_id": 1, "schema_version": 2, "rev": 1, "a": 1}


def elsewhere(work: Callable[[], None]) -> None:
    """Do something in another thread, as another process would: sessions of MongoDB belong to threads here."""
    with in_background(work):
        pass


@pytest.mark.parametrize(
    ("guard", "point"),
    [
        ("version", "documents.read"),
        ("auto", "documents.read"),
        ("auto", "documents.rewrite_fenced.rewritten"),
        ("auto", "documents.rewrite_fenced.before-commit"),
    ],
)
def test_a_lane_whose_lease_is_gone_writes_nothing(
    db: Database[Any], monkeypatch: pytest.MonkeyPatch, guard: str, point: str
) -> None:
    """It stands still there; meanwhile another lane ends the migration, and a revert ends too."""
    monkeypatch.setattr("migronaut.engine.lane.ranges._SURE_FOR", 0)
    seeded(db, 20)
    rig = Rig(db=db)
    back = [{"$set": {"address": "$shipping.address"}}, {"$unset": ["shipping", "migrations"]}]
    rig.register(piped(revert_pipeline=back, guard=guard))
    rig.coordinate()

    def others() -> None:
        rig.ports.store.drop_leases(NAME)
        assert rig.run() is Status.COMPLETED
        register(rig.ports, NAME, direction=Direction.REVERT, registration="back", request=Request())
        assert rig.run() is Status.COMPLETED

    rig.interrupt = at(point, lambda: elsewhere(others))
    assert rig.slice().outcome is Outcome.LOST
    assert db.orders.count_documents({"schema_version": 1, "address": {"$exists": True}}) == 20


def test_a_stop_ends_the_search_for_offenders(db: Database[Any]) -> None:
    seeded(db, 64)
    db.orders.update_many({}, {"$set": {"hits": "text"}})
    rig = Rig(db=db)
    rig.register(piped(pipeline=ADDING, max_document_errors=64))
    stop = StopEvent()
    rig.interrupt = at("store.checkpointed", lambda: stop.set("shutdown"), arrival=3)
    assert rig.run(stop=stop) is None
    assert 0 < rig.totals.failed < 64
    rig.interrupt = lambda point: None
    assert rig.run() is Status.COMPLETED
    assert rig.status().left_out == 64


def test_many_long_ids_are_halved_in_pieces_that_fit(db: Database[Any]) -> None:
    long = "x" * 1000
    db.orders.insert_many([old(f"{number:06d}{long}") for number in range(20_000)])
    offender = f"{12_345:06d}{long}"
    db.orders.update_one({"_id": offender}, {"$set": {"hits": "text"}})
    rig = Rig(db=db)
    rig.register(piped(pipeline=ADDING, max_document_errors=1, batch_size=100_000))
    assert rig.run() is Status.COMPLETED
    assert rig.state.bad_ids == (offender,)
    assert rig.totals.migrated == 19_999


@pytest.mark.parametrize("setting", ["pipeline", "revert_pipeline"])
def test_both_ways_are_read_by_the_server_when_registering(db: Database[Any], setting: str) -> None:
    rig = Rig(db=db)
    with pytest.raises(InvalidMigrationError, match=f"does not accept the {setting}"):
        rig.register(piped(**{"revert_pipeline": TO_SHIPPING, setting: [{"$set": {"a": {"$nosuch": 1}}}]}))


@pytest.mark.parametrize("kind", ["view", "timeseries"])
def test_what_is_no_collection_is_refused_when_registering(db: Database[Any], kind: str) -> None:
    if kind == "view":
        db.create_collection("orders", viewOn="others", pipeline=[])
    else:
        db.create_collection("orders", timeseries={"timeField": "at"})
    rig = Rig(db=db)
    with pytest.raises(InvalidMigrationError, match=f"orders is a {kind}"):
        rig.register(piped())


def stored(db: Database[Any]) -> list[Document]:
    return list(db.orders.find())


@pytest.mark.parametrize("batch_size", [7, 5000])
def test_offending_documents_are_found_and_named_and_the_rest_is_rewritten(db: Database[Any], batch_size: int) -> None:
    count = 10_000 if batch_size == 5000 else COUNT
    offending(db, count)
    rig = Rig(db=db)
    rig.register(piped(pipeline=ADDING, max_document_errors=5, batch_size=batch_size))
    assert rig.run() is Status.COMPLETED
    assert set(rig.state.bad_ids) == OFFENDERS
    status = rig.status()
    assert (status.left_out, status.totals.failed, status.totals.migrated) == (3, 3, count - 3)
    assert (status.totals.scanned, status.totals.skipped, status.totals.conflicts) == (count, 0, 0)
    assert [error.kind for error in status.errors] == ["refused-16554"] * 3
    assert "SECRET" not in str(status)
    documents = rig.documents()
    assert_migrated_once({id_: doc for id_, doc in documents.items() if id_ not in OFFENDERS})
    assert [documents[id_] for id_ in sorted(OFFENDERS)] == [old(id_, hits="SECRET") for id_ in sorted(OFFENDERS)]


def test_past_the_budget_the_migration_fails_and_a_retry_goes_on(db: Database[Any]) -> None:
    offending(db, COUNT)
    rig = Rig(db=db)
    rig.register(piped(pipeline=ADDING, max_document_errors=1, batch_size=100))
    assert rig.run() is Status.FAILED
    assert "max_document_errors allows 1" in str(rig.status().last_error)
    assert db.orders.count_documents({"migrations": 2}) == 0
    db.orders.update_many({"hits": "SECRET"}, {"$set": {"hits": 0}})
    controls.retry(rig.ports, NAME, Request(), from_start=False)
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())


def test_a_validator_and_a_unique_index_refuse_single_documents(db: Database[Any]) -> None:
    seeded(db, 60)
    db.orders.create_index("number", unique=True, partialFilterExpression={"number": {"$exists": True}})
    db.command("collMod", "orders", validator={"forbidden": {"$exists": False}})
    number = {"$cond": [{"$eq": ["$_id", 13]}, 3, "$_id"]}
    forbidden = {"$cond": [{"$in": ["$_id", [17, 18]]}, True, "$$REMOVE"]}
    rig = Rig(db=db)
    stages = [*TO_SHIPPING, {"$set": {"number": number, "forbidden": forbidden}}]
    rig.register(piped(pipeline=stages, batch_size=50, max_document_errors=3))
    assert rig.run() is Status.COMPLETED
    assert sorted(rig.state.bad_ids) == [13, 17, 18]
    told = " ".join(error.message for error in rig.status().errors)
    assert "because of the unique index 'number_1'" in told
    assert "because of the validator of the collection" in told
    assert rig.totals.migrated == 57


WRITES: dict[str, Callable[[Database[Any]], object]] = {
    "update": lambda db: db.orders.update_one({"_id": 15}, {"$set": {"hits": 9}}),
    "delete": lambda db: db.orders.delete_one({"_id": 15}),
    "insert": lambda db: db.orders.insert_one(old(15.5, hits=9)),
    "replace": lambda db: db.orders.replace_one({"_id": 15}, old(15, hits=9)),
    "replace by the new shape": lambda db: db.orders.replace_one(
        {"_id": 15}, {"shipping": {"address": "x"}, "hits": 9, "schema_version": 2, "migrations": 1}
    ),
}


@pytest.mark.parametrize(
    ("guard", "point"),
    [
        ("auto", "documents.read"),
        ("auto", "documents.rewrite_fenced.rewritten"),
        ("auto", "documents.rewrite_fenced.committed"),
        ("version", "documents.read"),
        ("version", "documents.rewrite.rewritten"),
        ("version", "store.checkpointed"),
    ],
)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_of_the_application_is_kept_wherever_it_falls(
    db: Database[Any], write: str, guard: str, point: str
) -> None:
    seeded(db, 40)
    rig = Rig(db=db)
    rig.register(piped(batch_size=20, guard=guard))
    writing = threading.Thread(target=lambda: WRITES[write](db))
    rig.interrupt = at(point, writing.start)
    if not point.endswith("fenced.rewritten"):
        # Elsewhere nothing is open that the write would have to wait for.
        rig.interrupt = at(point, lambda: (writing.start(), writing.join()))
    assert rig.run() is Status.COMPLETED
    writing.join(60)
    if rig.documents().get(15.5, {}).get("schema_version") == 1:
        rig.engine.verify()  # it came when the last count was made
        assert rig.run() is Status.COMPLETED
    documents = rig.documents()
    if write == "delete":
        assert 15 not in documents
    else:
        assert documents[15.5 if write == "insert" else 15]["hits"] == 9
    if not write.startswith("replace") or point == "documents.read":
        assert_migrated_once(documents)
    assert rig.totals.migrated <= 41 + (write == "replace")


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("guard", "point", "arrival"),
    [
        ("auto", "documents.read", 2),
        ("auto", "documents.rewrite_fenced.rewritten", 1),
        ("auto", "documents.rewrite_fenced.before-commit", 5),
        ("auto", "documents.rewrite_fenced.committed", 3),
        ("auto", "store.release", 1),
        ("version", "documents.rewrite.rewritten", 1),
        ("version", "documents.rewrite.rewritten", 5),
    ],
)
def test_killed_anywhere_each_document_is_rewritten_once_and_counted_where_that_can_be(
    db: Database[Any], mongo_uri: str, guard: str, point: str, arrival: int
) -> None:
    seeded(db, 45, rev=5)
    settings = {"migrate": None, "pipeline": TO_SHIPPING, "revision_field": "rev", "guard": guard}
    rig = Rig(db=db, lease_ttl=LEASE_TTL)
    rig.register(orders(**settings))
    process = start(mongo_uri, db.name, settings, point=point, arrival=arrival)
    assert process.wait(30) == -signal.SIGKILL, "it never came to that point"
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert db.orders.count_documents({"rev": 6}) == 45
    assert rig.totals.migrated == 45 or (guard == "version" and rig.totals.migrated < 45)


NEW_ROOT: list[list[Document]] = [
    [{"$replaceWith": {"shipping": {"address": "$address"}, "migrations": 1}}],
    [{"$replaceRoot": {"newRoot": {"$mergeObjects": [{"shipping": {"address": "$address"}}, {"migrations": 1}]}}}],
    [{"$project": {"shipping": {"address": "$address"}, "migrations": {"$literal": 1}}}],
]


@pytest.mark.parametrize("stages", NEW_ROOT)
def test_a_new_root_keeps_counting_the_revision(db: Database[Any], stages: list[Document]) -> None:
    seeded(db, 30, rev=41)
    rig = Rig(db=db)
    rig.register(piped(pipeline=stages, revision_field="rev"))
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert {doc["rev"] for doc in rig.documents().values()} == {42}
    assert {frozenset(doc) for doc in rig.documents().values()} == {
        frozenset({"_id", "shipping", "migrations", "schema_version", "rev"})
    }


def test_a_new_root_that_is_no_document_is_refused_and_the_old_one_stays(db: Database[Any]) -> None:
    seeded(db, 30)
    db.orders.update_one({"_id": 7}, {"$unset": {"address": ""}})
    db.orders.update_many({"_id": {"$ne": 7}}, {"$set": {"address": {"shipping": {}, "migrations": 1}}})
    rig = Rig(db=db)
    rig.register(piped(pipeline=[{"$replaceWith": "$address"}], max_document_errors=1))
    assert rig.run() is Status.COMPLETED
    assert rig.state.bad_ids == (7,)
    assert rig.documents()[7] == {"_id": 7, "hits": 0, "schema_version": 1}


@pytest.mark.parametrize("stages", [[{"$set": {"a": {"$nosuch": 1}}}], [{"$set": {"a.": 1}}]])
def test_what_the_server_cannot_read_is_refused_when_registering(db: Database[Any], stages: list[Document]) -> None:
    seeded(db, 5)
    rig = Rig(db=db)
    with pytest.raises(InvalidMigrationError, match="does not accept the pipeline"):
        rig.register(piped(pipeline=stages))
    assert db.list_collection_names() == ["orders"]
