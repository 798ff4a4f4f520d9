"""A primary dies with what only it has, while others look at that: no verdict rests on it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from cluster_kit import Cluster, Waiting
from engine_kit import COUNT, LANES, Rig, assert_exact, at, in_background, orders, piped, seeded
from migronaut.core.state import PartitionStatus, Status
from migronaut.spec import Background
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize(
    "background",
    [
        pytest.param(orders(batch_size=COUNT + 1), id="function"),
        pytest.param(piped(batch_size=COUNT + 1), id="pipeline"),
        pytest.param(orders(batch_size=COUNT + 1, write_concern={"w": 1}), id="function, w: 1"),
        pytest.param(piped(batch_size=COUNT + 1, guard="version"), id="pipeline without transactions"),
    ],
)
def test_a_commit_that_waits_for_its_majority_completes_nothing(
    cluster: Cluster, cluster_db: Database[Any], background: Background
) -> None:
    """The lane hangs in its last commit, or behind it; whoever reads sees it done; the verdict waits in its turn."""
    seeded(cluster_db)
    cluster.heal()
    locked, go, waiting = threading.Event(), threading.Event(), Waiting()
    ends: list[Status | None] = []

    def hold() -> None:
        locked.set()
        assert go.wait(PATIENCE)

    with MongoClient[dict[str, Any]](cluster.uri, event_listeners=[waiting]) as client:
        rig = Rig(db=client[cluster_db.name], lease_ttl=3)
        rig.register(background)
        rig.coordinate()
        rig.interrupt = at("locks.acquired", hold)
        stop_replication = at("documents.read", lambda: cluster.stop_replication(*cluster.secondaries()))
        lane = Rig(db=cluster_db, lease_ttl=3, catalog=rig.catalog, interrupt=stop_replication)
        with in_background(lambda: ends.append(rig.run())):
            assert locked.wait(PATIENCE)
            with in_background(lane.slice):
                done = {"status": PartitionStatus.DONE}
                wait_until(lambda: cluster_db[LANES].count_documents(done), what="the last batch is written")
                go.set()
                wait_until(waiting.for_long, what="the coordinator waits for a majority")
                dead = cluster.lose_what_only_the_primary_has()
        assert ends == [Status.COMPLETED]
        assert_exact(rig)
        dead.restart()
