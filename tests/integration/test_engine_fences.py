"""A lane stands still past its lease, on a real server, and wakes up after somebody has acted: it writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve
from pymongo.database import Database

from engine_kit import ANN, COUNT, LANES, NAME, Rig, assert_exact, at, in_background, orders, piped, seeded, to_shipping
from migronaut.core.lane import Outcome
from migronaut.core.state import Direction, Partitioning, Status
from migronaut.engine import Engine
from migronaut.engine.operator import controls
from migronaut.engine.operator.registering import register
from migronaut.engine.stopping import StopEvent
from migronaut.memory.running import StillHeartbeat

TTL = 0.5


def revert(doc: dict[str, Any]) -> dict[str, Any]:
    doc["address"] = doc.pop("shipping")["address"]
    return doc


BY_FUNCTION = orders(revert=revert, max_parallel=2, partitions=Partitioning(min_documents=20))
BY_PIPELINE = piped(
    revert_pipeline=[{"$set": {"address": "$shipping.address"}}, {"$unset": "shipping"}],
    max_parallel=2,
    partitions=Partitioning(min_documents=20),
)
POINTS = [
    (BY_FUNCTION, "documents.write_same.compared"),
    (BY_FUNCTION, "documents.write_same.before-commit"),
    (BY_PIPELINE, "documents.rewrite_fenced.rewritten"),
    (BY_PIPELINE, "documents.rewrite_fenced.before-commit"),
]


@pytest.fixture
def rig(db: Database[Any]) -> Rig:
    """Without heartbeats: a process that stands still sends none."""
    seeded(db)
    rig = Rig(db=db, lease_ttl=TTL)
    rig.engine = Engine(evolve(rig.ports, heartbeat=StillHeartbeat()))
    return rig


@contextmanager
def frozen(rig: Rig, point: str) -> Iterator[Callable[[], None]]:
    """A lane that stands still at its second arrival at a point; the value wakes it up and waits for its end."""
    there, woken, ended = threading.Event(), threading.Event(), threading.Event()
    ends: list[Outcome] = []

    def freeze() -> None:
        there.set()
        assert woken.wait(30)

    def work() -> None:
        ends.append(rig.slice().outcome)
        ended.set()

    def wake() -> None:
        woken.set()
        assert ended.wait(30)

    rig.coordinate()
    rig.interrupt = at(point, freeze, arrival=2)
    with in_background(work):
        assert there.wait(30)
        rig.interrupt = lambda reached: None
        try:
            yield wake
        finally:
            woken.set()
    assert ends == [Outcome.LOST]


def new_shaped(rig: Rig) -> int:
    return rig.db.orders.count_documents({"shipping": {"$exists": True}})


@pytest.mark.parametrize("control", [controls.pause, controls.cancel])
@pytest.mark.parametrize(("background", "point"), POINTS)
def test_once_it_says_stopped_nothing_is_written(rig: Rig, background: Any, point: str, control: Any) -> None:
    rig.register(background)
    with frozen(rig, point) as wake:
        told = controls.wait_for_lanes(rig.ports, control(rig.ports, NAME, ANN), StopEvent())
        assert told.stopped
        before = new_shaped(rig)
        wake()
    assert new_shaped(rig) == rig.totals.migrated == before


def test_an_expired_lease_is_taken_by_its_token_and_what_it_had_open_is_aborted(rig: Rig) -> None:
    rig.register(BY_FUNCTION)
    with frozen(rig, "documents.write_same.before-commit") as wake:
        assert controls.wait_for_lanes(rig.ports, controls.pause(rig.ports, NAME, ANN), StopEvent()).stopped
        assert rig.db[LANES].count_documents({"lease": {"$exists": True}}) == 0
        # Its transaction held documents; nobody has to wait for them.
        assert rig.db.orders.update_many({}, {"$inc": {"hits": 1}}).modified_count == COUNT
        assert rig.totals.reclaims == 1
        wake()


@pytest.mark.parametrize(("background", "point"), POINTS)
def test_a_plan_made_anew_counts_all_that_is_ever_committed(rig: Rig, background: Any, point: str) -> None:
    """The lane wakes up when the counters of its plan were taken into the totals, and the new plan is not there yet."""
    rig.register(background)
    with frozen(rig, point) as wake:
        other = orders(revert=revert) if background is BY_FUNCTION else piped(revert_pipeline=[{"$unset": "shipping"}])
        rig.give(other, text="2")
        controls.repin(rig.ports, NAME, ANN)
        rig.interrupt = at("store.save", wake, arrival=1)
        while rig.state.generation == 1:
            rig.coordinate()
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


@pytest.mark.parametrize(("background", "point"), POINTS)
def test_nothing_is_migrated_after_a_revert_has_completed(rig: Rig, background: Any, point: str) -> None:
    rig.register(background)
    with frozen(rig, point) as wake:
        controls.cancel(rig.ports, NAME, ANN)
        register(rig.ports, NAME, direction=Direction.REVERT, registration=uuid4().hex, request=ANN)
        assert rig.run() is Status.COMPLETED
        wake()
    assert rig.db.orders.count_documents({"address": {"$exists": True}}) == COUNT
    assert new_shaped(rig) == 0


@pytest.mark.parametrize("point", ["documents.write_same.compared", "documents.write_same.before-commit"])
def test_nothing_of_the_old_file_is_committed_after_a_retry_with_another_one(rig: Rig, point: str) -> None:
    """A batch that is slow, under a lease with an hour to live."""
    rig.engine = Engine(evolve(rig.ports, lease_ttl=3600.0))
    rig.register(orders(migrate=lambda doc: to_shipping(doc) | {"wrong": True}))
    with frozen(rig, point) as wake:
        controls.cancel(rig.ports, NAME, ANN)
        rig.give(orders(), text="2")
        controls.retry(rig.ports, NAME, ANN, from_start=False, repin=True)
        before = rig.db.orders.count_documents({"wrong": True})
        rig.coordinate()
        wake()
    assert rig.run() is Status.COMPLETED
    assert rig.db.orders.count_documents({"wrong": True}) == before == 10
    assert_exact(rig)
