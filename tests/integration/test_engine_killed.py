"""SIGKILL at every point between claim, read, write, checkpoint and release: another process ends the work, exactly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import LANES, Rig, assert_migrated_once, old, orders
from engine_lane import LEASE_TTL, start
from migronaut.core.state import Status

pytestmark = pytest.mark.chaos

DOCUMENTS = 45
SNAPSHOT = [
    ("store.save", 1),  # the plan's partitions are written, the plan is not
    ("store.saved", 1),
    ("store.claimed", 1),
    ("documents.read", 2),
    ("documents.write_same.compared", 2),
    ("store.checkpoint", 2),
    ("store.checkpointed", 2),
    ("documents.write_same.before-commit", 1),
    ("documents.write_same.committed", 1),
    ("documents.write_same.committed", 5),  # the last batch: partition and lease are closed with it
    ("store.release", 2),
    ("store.released", 2),
    ("store.save", 2),  # all is rewritten, the end is not
    ("store.saved", 2),
]
REVISION = [
    ("documents.read", 2),
    ("documents.write_guarded.written", 1),
    ("documents.write_guarded.written", 5),
    ("store.checkpoint", 2),
    ("store.checkpointed", 2),
    ("store.release", 1),
]


@pytest.fixture
def short_transactions(client: MongoClient[Any]) -> Iterator[None]:
    """The server gives up a dead client's open transaction after two seconds instead of a minute."""
    name = "transactionLifetimeLimitSeconds"
    before = client.admin.command({"getParameter": 1, name: 1})[name]
    client.admin.command({"setParameter": 1, name: 2})
    yield
    client.admin.command({"setParameter": 1, name: before})


def killed_and_finished(db: Database[Any], uri: str, *, point: str, arrival: int, guard: str) -> Rig:
    db.orders.insert_many([old(number, rev=5) for number in range(DOCUMENTS)])
    rig = Rig(db=db, lease_ttl=LEASE_TTL)
    settings = {"guard": guard, "revision_field": "rev"}
    rig.register(orders(**settings))
    process = start(uri, db.name, settings, point=point, arrival=arrival)
    assert process.wait(30) == -signal.SIGKILL, "it never came to that point"
    assert rig.run() is Status.COMPLETED
    documents = rig.documents()
    assert_migrated_once(documents)
    assert [doc["rev"] for doc in documents.values()] == [6] * DOCUMENTS
    assert db[LANES].count_documents({"lease": {"$exists": True}}) == 0
    assert db["_migronaut_locks"].count_documents({}) == 0
    return rig


@pytest.mark.usefixtures("short_transactions")
@pytest.mark.parametrize(("point", "arrival"), SNAPSHOT)
def test_with_the_snapshot_guard_documents_and_counters_are_exact(
    db: Database[Any], mongo_uri: str, point: str, arrival: int
) -> None:
    rig = killed_and_finished(db, mongo_uri, point=point, arrival=arrival, guard="snapshot")
    totals = rig.totals
    assert (totals.scanned, totals.migrated, totals.skipped, totals.conflicts) == (DOCUMENTS, DOCUMENTS, 0, 0)
    assert rig.status().pass_number == 1


@pytest.mark.parametrize(("point", "arrival"), REVISION)
def test_with_the_revision_guard_documents_are_exact(
    standalone_db: Database[Any], standalone_uri: str, point: str, arrival: int
) -> None:
    killed_and_finished(standalone_db, standalone_uri, point=point, arrival=arrival, guard="revision")
