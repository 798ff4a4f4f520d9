"""Three members, of which one or two are late, frozen or dead: a majority is all that a migration needs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database

from cluster_kit import Cluster, Member, Waiting
from engine_kit import COUNT, Rig, assert_exact, assert_migrated_once, at, in_background, orders, piped, seeded
from migronaut.core.state import Status
from migronaut.spec import Background
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.chaos

MIDDLE = 5
"""The batch at which something happens, of twenty."""
BOTH = pytest.mark.parametrize(
    ("background", "begun"),
    [
        pytest.param(orders, "documents.write_same.compared", id="function"),
        pytest.param(piped, "documents.rewrite_fenced.rewritten", id="pipeline"),
    ],
)

Declaring = Callable[..., Background]


def only_on_the_primary(db: Database[Any]) -> Database[Any]:
    """Writes that wait for nobody."""
    return db.client.get_database(db.name, write_concern=WriteConcern(1))


def test_what_only_a_dead_primary_had_is_undone_in_it_too(cluster: Cluster, cluster_db: Database[Any]) -> None:
    """What the other tests stand on."""
    cluster_db.notes.insert_one({"_id": "everywhere"})
    cluster.heal()
    cluster.stop_replication(*cluster.secondaries())
    only_on_the_primary(cluster_db).notes.insert_one({"_id": "alone"})
    dead = cluster.lose_what_only_the_primary_has()
    cluster_db.notes.insert_one({"_id": "later"})
    cluster.restart(dead)
    assert {note["_id"] for note in dead.direct[cluster_db.name].notes.find()} == {"everywhere", "later"}


@BOTH
@pytest.mark.parametrize("trouble", [Cluster.stop_replication, Cluster.freeze, Cluster.kill])
def test_one_member_in_trouble_holds_nothing_up(
    cluster: Cluster,
    cluster_db: Database[Any],
    background: Declaring,
    begun: str,
    trouble: Callable[[Cluster, Member], None],
) -> None:
    seeded(cluster_db)
    troubled = cluster.secondaries()[0]
    rig = Rig(db=cluster_db, interrupt=at(begun, lambda: trouble(cluster, troubled), arrival=MIDDLE))
    rig.register(background())
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)
    cluster.heal()
    assert_migrated_once({doc["_id"]: doc for doc in troubled.direct[cluster_db.name].orders.find()})


@BOTH
def test_without_a_majority_a_migration_waits(
    cluster: Cluster, cluster_db: Database[Any], background: Declaring, begun: str
) -> None:
    seeded(cluster_db)
    late, waiting, ends = threading.Event(), Waiting(), []

    def lose_majority() -> None:
        cluster.stop_replication(*cluster.secondaries())
        late.set()

    with MongoClient[dict[str, Any]](cluster.uri, event_listeners=[waiting]) as client:
        rig = Rig(db=client[cluster_db.name], interrupt=at(begun, lose_majority, arrival=MIDDLE))
        rig.register(background())
        with in_background(lambda: ends.append(rig.run())):
            assert late.wait(PATIENCE)
            wait_until(waiting.for_long, what="it waits for a majority")
            assert Rig(db=cluster_db).state.status is Status.RUNNING
            assert rig.migrated() < COUNT
            cluster.resume_replication()
        assert ends == [Status.COMPLETED]
        assert_exact(rig)


@pytest.mark.parametrize(
    ("background", "committed"),
    [
        pytest.param(orders, "documents.write_same.committed", id="function"),
        pytest.param(piped, "documents.rewrite_fenced.committed", id="pipeline"),
    ],
)
def test_batches_that_a_failover_undid_are_done_again_and_counted_once(
    cluster: Cluster, cluster_db: Database[Any], background: Declaring, committed: str
) -> None:
    """With ``w: 1`` a lane goes on although nobody else has what it writes."""
    seeded(cluster_db)
    cluster.heal()
    rig = Rig(db=cluster_db)
    undone: list[int] = []
    dead: list[Member] = []
    lose_majority = at(committed, lambda: cluster.stop_replication(*cluster.secondaries()), arrival=MIDDLE)

    def lose_primary() -> None:
        before = rig.migrated()
        dead.append(cluster.lose_what_only_the_primary_has())
        undone.append(before - rig.migrated())

    fail_over = at(committed, lose_primary, arrival=2 * MIDDLE)

    def reach(point: str) -> None:
        lose_majority(point)
        fail_over(point)

    rig.interrupt = reach
    rig.register(background(write_concern={"w": 1}))
    assert rig.run() is Status.COMPLETED
    cluster.restart(*dead)
    assert undone[0] >= 4 * 10
    assert_exact(rig)
