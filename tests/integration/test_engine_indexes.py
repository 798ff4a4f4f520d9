"""The index on version and ``_id``: built, dropped, appearing while work goes on; and a server that scans nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import COUNT, NAME, Rig, assert_exact, at, old, orders, piped, seeded
from migronaut.core.state import Partitioning, Spec, Status
from migronaut.engine.operator.verify import OnDrift, verify
from migronaut.mongo import hints
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.store import MongoStore

KEYS = [("schema_version", 1), ("_id", 1)]
ADDRESS = {"address": {"$exists": True}}
BY_PREDICATE: dict[str, Any] = {"from_version": None, "to_version": None, "filter": ADDRESS}
WAYS = [orders(), piped(), piped(guard="version")]


@contextmanager
def being_built(db: Database[Any]) -> Iterator[None]:
    """An index that the server lists, and cannot use yet."""
    db.client.admin.command("configureFailPoint", "hangAfterStartingIndexBuild", mode="alwaysOn")
    build = threading.Thread(target=lambda: db.orders.create_index(KEYS), daemon=True)
    build.start()
    try:
        while len(list(db.orders.list_indexes())) < 2:
            build.join(0.01)
        yield
    finally:
        db.client.admin.command("configureFailPoint", "hangAfterStartingIndexBuild", mode="off")
        build.join(30)


@contextmanager
def no_table_scans(client: MongoClient[Any]) -> Iterator[None]:
    """``notablescan=1``: what has no index to go by is refused."""
    client.admin.command("setParameter", 1, notablescan=True)
    try:
        yield
    finally:
        client.admin.command("setParameter", 1, notablescan=False)


@pytest.mark.parametrize("given", WAYS)
def test_an_index_that_is_being_built_does_not_count(
    db: Database[Any], given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seeded(db)
    rig = Rig(db=db)
    with being_built(db):
        rig.register(given)
        assert rig.run() is Status.COMPLETED
        ((name, reason),) = verify(rig.ports, OnDrift.REOPEN).skipped
        assert (name, "no index {schema_version: 1, _id: 1}" in reason) == (NAME, True)
    assert verify(rig.ports, OnDrift.REOPEN).checked == (NAME,)
    assert_exact(rig)
    assert "raised" not in caplog.text


@pytest.mark.parametrize("given", WAYS)
def test_an_index_that_is_dropped_under_a_lane_is_done_without(
    db: Database[Any], given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seeded(db)
    db.orders.create_index(KEYS)
    rig = Rig(db=db)
    rig.register(given)
    rig.interrupt = at("documents.read", lambda: db.orders.drop_index(KEYS), arrival=4)
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)
    assert "raised" not in caplog.text
    assert "away" not in caplog.text


def test_an_index_that_is_dropped_between_the_ids_and_the_update_of_a_pipeline_is_done_without(
    db: Database[Any],
) -> None:
    """Each batch reads its ids, and its update goes by the same index: no document is to blame."""
    seeded(db)
    db.orders.create_index(KEYS)
    rig = Rig(db=db)
    rig.register(piped(pause=0.001))
    rig.interrupt = at("documents.read", lambda: db.orders.drop_index(KEYS), arrival=4)
    assert rig.run() is Status.COMPLETED
    assert rig.status().errors == ()
    assert_exact(rig)


def test_a_new_index_is_noticed(db: Database[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(db)
    documents = MongoDocuments(MongoStore(db), db, Spec(collection="orders", from_version=1, to_version=2))
    assert not documents.indexed()
    db.orders.create_index(KEYS)
    assert not documents.indexed()  # it does not ask at each read
    monkeypatch.setattr(hints, "_LOOK_AGAIN", 0.0)
    assert documents.indexed()
    db.orders.drop_index(KEYS)
    assert documents.count({"schema_version": 1}, limit=5) == 5
    assert not documents.indexed()


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(
    "given",
    [{}, BY_PREDICATE, {"migrate": None, "pipeline": [{"$unset": "address"}]}],
    ids=["version", "filter", "pipeline"],
)
def test_a_server_that_scans_no_collection_goes_by_id(db: Database[Any], lanes: int, given: dict[str, Any]) -> None:
    seeded(db)
    rig = Rig(db=db)
    cut = Partitioning(min_documents=10)
    with no_table_scans(db.client):
        rig.register(orders(max_parallel=lanes, partitions=cut, **given))
        assert rig.run(lanes=lanes) is Status.COMPLETED, rig.status().last_error
        assert not verify(rig.ports, OnDrift.REPORT).drift
        assert rig.status().totals.migrated == COUNT
    assert db.orders.count_documents({"address": {"$exists": True}}) == 0


def test_one_probe_for_many_versions_goes_by_the_index(db: Database[Any]) -> None:
    """What is asked about all the earlier migrations of a collection at once must not scan it."""
    db.orders.insert_many([old(number, schema_version=9) for number in range(500)])
    db.orders.create_index(KEYS)
    versions = [{"schema_version": number} for number in range(1, 6)]
    versions[2] = {"$and": [versions[2], {"address": {"$exists": True}}]}
    db.command("profile", 2)
    documents = MongoDocuments(MongoStore(db), db, Spec(collection="orders", from_version=1, to_version=2))
    assert documents.count({"$or": versions}, limit=1, timeout=5.0) == 0
    db.command("profile", 0)
    (seen,) = db["system.profile"].find({"command.aggregate": "orders"})
    assert seen["docsExamined"] == 0
    assert seen["keysExamined"] <= 10
