"""The database dies in the middle of a run and comes back: the run goes on by itself, exactly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import Rig, assert_migrated_once, at, in_background, old, orders
from migronaut.core.state import Partitioning, Status
from migronaut.embedded import EmbeddedMongo

pytestmark = pytest.mark.chaos

COUNT = 200


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedMongo]:
    """A server of these tests' own, which they may kill."""
    with EmbeddedMongo() as mongo:
        yield mongo


@pytest.fixture
def impatient(server: EmbeddedMongo, request: pytest.FixtureRequest) -> Iterator[Database[Any]]:
    """A database whose client gives up at once, so that the driver's own patience hides nothing."""
    with MongoClient[dict[str, Any]](server.uri, serverSelectionTimeoutMS=100) as client:
        database = client[f"t_{abs(hash(request.node.name))}"]
        database.orders.insert_many([old(number) for number in range(COUNT)])
        yield database
        client.drop_database(database)


@pytest.mark.parametrize(
    ("point", "arrival"),
    [
        ("store.claimed", 2),
        ("documents.read", 3),
        ("documents.write_same.compared", 3),
        ("documents.write_same.before-commit", 3),
        ("documents.write_same.committed", 3),
        ("store.save", 2),
    ],
)
def test_a_server_killed_in_the_middle_costs_time_only(
    server: EmbeddedMongo, impatient: Database[Any], point: str, arrival: int
) -> None:
    there, gone = threading.Event(), threading.Event()

    def wait() -> None:
        there.set()
        assert gone.wait(20)

    rig = Rig(db=impatient, interrupt=at(point, wait, arrival=arrival), lease_ttl=2)
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=40)))
    ends: list[Status | None] = []
    with in_background(lambda: ends.append(rig.run(lanes=2))):
        assert there.wait(20)
        server.kill()
        gone.set()
        server.restart()
    assert ends == [Status.COMPLETED]
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.scanned, rig.status().left_out) == (COUNT, COUNT, 0)
