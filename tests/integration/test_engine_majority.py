"""Three members, of which the primary is lost with what nobody else has: nothing completes on the strength of that."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from cluster_kit import Cluster, Member
from engine_kit import COUNT, Rig, assert_migrated_once, at, orders, piped, seeded
from migronaut.core.coordinator import Wait
from migronaut.core.lane import Outcome
from migronaut.core.state import Status
from migronaut.mongo import settling
from migronaut.spec import Background

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize(
    "background",
    [
        pytest.param(orders(batch_size=COUNT + 1, write_concern={"w": 1}), id="functions, w: 1"),
        pytest.param(piped(batch_size=COUNT + 1, write_concern={"w": 1}), id="pipeline, w: 1"),
        pytest.param(piped(batch_size=COUNT + 1, guard="version"), id="pipeline without transactions"),
    ],
)
def test_what_no_majority_has_completes_nothing(
    cluster: Cluster, cluster_db: Database[Any], background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has its lock when the last batch is written; the primary dies before its verdict is stored."""
    monkeypatch.setattr(settling, "_WITHIN", 500)
    seeded(cluster_db)
    cluster.heal()
    rig = Rig(db=cluster_db, lease_ttl=3)
    rig.register(background)
    rig.coordinate()
    secondaries = cluster.secondaries()
    dead: list[Member] = []
    lost: list[str] = []

    def work() -> None:
        rig.interrupt = at("documents.read", lambda: cluster.stop_replication(*secondaries))
        assert rig.slice(length=0.001).outcome is Outcome.YIELDED
        rig.interrupt = lose_primary

    def lose_primary(point: str) -> None:
        if point in ("store.save", "locks.release") and not lost:
            lost.append(point)
            dead.append(cluster.lose_what_only_the_primary_has())

    rig.interrupt = at("locks.acquired", work)
    answer = rig.coordinate()
    rig.interrupt = lambda point: None
    cluster.restart(dead[0])
    assert (isinstance(answer, Wait), lost) == (True, ["locks.release"]), rig.state.status
    assert "majority" in answer.reason  # type: ignore[union-attr]
    assert rig.state.status is Status.RUNNING
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert rig.totals.migrated == COUNT


def test_a_standalone_server_has_no_one_to_wait_for(standalone_db: Database[Any]) -> None:
    seeded(standalone_db)
    rig = Rig(db=standalone_db)
    rig.register(piped())
    assert rig.run() is Status.COMPLETED
    assert rig.migrated() == COUNT
