"""Drift, requirements, passes, and what a worker may not touch: the life of a migration beside its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import (
    ANN,
    COUNT,
    LANES,
    LATER,
    NAME,
    STATES,
    Document,
    Rig,
    assert_exact,
    at,
    old,
    orders,
    seeded,
    to_shipping,
)
from migronaut.core.coordinator import Wait
from migronaut.core.lane import Outcome
from migronaut.core.state import Status
from migronaut.engine.operator import controls
from migronaut.engine.operator.verify import OnDrift, verify
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundConflictError


@pytest.fixture
def rig(db: Database[Any]) -> Rig:
    seeded(db)
    return Rig(db=db)


def test_drift_reopens_and_the_next_run_migrates_it(rig: Rig) -> None:
    rig.db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    assert verify(rig.ports, OnDrift.REOPEN).drift == ()
    rig.db.orders.insert_one(old("late"))
    (reported,) = verify(rig.ports, OnDrift.REPORT).drift
    assert (reported.migration, reported.reopened, rig.status().status) == (NAME, False, Status.COMPLETED)
    (found,) = verify(rig.ports, OnDrift.REOPEN).drift
    assert (found.migration, found.collection, found.reopened) == (NAME, "orders", True)
    assert rig.status().status == Status.RUNNING
    assert rig.run() is Status.COMPLETED
    assert_exact(rig, COUNT + 1)
    assert rig.status().reopened == 1
    assert rig.actions() == ["plan", "complete", "reopen", "complete"]


def test_without_the_index_the_drift_poll_says_what_it_did_not_look_at(rig: Rig) -> None:
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    rig.db.orders.insert_one(old("late"))
    verified = verify(rig.ports, OnDrift.REOPEN)
    assert (verified.drift, verified.checked) == ((), ())
    ((name, reason),) = verified.skipped
    assert name == NAME
    assert "no index {schema_version: 1, _id: 1}" in reason
    assert "`db.orders.createIndex({schema_version: 1, _id: 1})`" in reason


def test_a_drift_poll_that_takes_too_long_has_looked_at_nothing(rig: Rig) -> None:
    """A collection with a collation of its own: its indexes carry it, and are used."""
    rig.db.orders.drop()
    rig.db.create_collection("orders", collation={"locale": "en", "strength": 2})
    rig.db.orders.insert_many([old(number) for number in range(COUNT)])
    rig.db.orders.create_index([("schema_version", 1), ("_id", 1)])
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    assert verify(rig.ports, OnDrift.REOPEN).checked == (NAME,)
    rig.db.orders.insert_one(old("late"))
    with time_limits_reached(rig.db.client):
        verified = verify(rig.ports, OnDrift.REOPEN)
    assert (verified.drift, verified.checked) == ((), ())
    ((name, reason),) = verified.skipped
    assert name == NAME
    assert "longer than 5 seconds" in reason
    assert verify(rig.ports, OnDrift.REPORT).drift != ()


@contextmanager
def time_limits_reached(client: MongoClient[Any]) -> Iterator[None]:
    """Every command with a time limit ends as if it had taken too long."""
    client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="alwaysOn")
    try:
        yield
    finally:
        client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="off")


def test_what_requires_another_waits_for_it(rig: Rig) -> None:
    rig.give(orders(), name=NAME)
    later = orders(from_version=2, to_version=3, migrate=lambda doc: doc | {"third": True})
    rig.register(later, name=LATER, requires=(NAME,))
    assert rig.status(LATER).status == Status.BLOCKED
    assert rig.status(LATER).waits_for == (NAME,)
    waiting = rig.coordinate(name=LATER)
    assert isinstance(waiting, Wait)
    assert waiting.reason == f"waits for {NAME}, which is not registered (`migronaut up` does it)"
    assert waiting.for_operator
    rig.register()
    waiting = rig.coordinate(name=LATER)
    assert isinstance(waiting, Wait)
    assert (waiting.reason, waiting.for_operator) == (f"waits for {NAME}, which is pending", False)
    assert rig.run() is Status.COMPLETED
    assert rig.run(name=LATER) is Status.COMPLETED
    assert rig.db.orders.count_documents({"third": True, "schema_version": 3}) == COUNT
    assert rig.actions(LATER) == ["unblock", "plan", "complete"]
    assert rig.status(LATER).waits_for == ()


def test_a_required_one_that_drifted_is_reopened_and_waited_for(rig: Rig) -> None:
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    rig.db.orders.insert_one(old("late"))
    later = orders(from_version=2, to_version=3, migrate=lambda doc: doc | {"third": True})
    rig.register(later, name=LATER, requires=(NAME,))
    assert rig.status(LATER).status == Status.BLOCKED
    assert rig.status().status == Status.RUNNING
    assert rig.run() is Status.COMPLETED
    assert rig.run(name=LATER) is Status.COMPLETED
    assert rig.db.orders.count_documents({"third": True}) == COUNT + 1


def test_old_shapes_that_keep_appearing_fail_it_after_max_passes(rig: Rig) -> None:
    rig.register(orders(max_passes=3))
    made = 0

    def interrupt(point: str) -> None:
        nonlocal made
        if point == "documents.read":
            made += 1
            rig.db.orders.insert_one(old(-made))  # behind the cursor

    rig.interrupt = interrupt
    assert rig.run() is Status.FAILED
    status = rig.status()
    assert status.pass_number == 3
    assert status.last_error is not None
    assert status.last_error.startswith("old-shape documents keep appearing after 3 passes")
    rig.interrupt = lambda point: None
    controls.retry(rig.ports, NAME, ANN, from_start=False)
    assert rig.run() is Status.COMPLETED
    assert_exact(rig, COUNT + made)
    assert rig.actions() == ["plan", "fail", "retry", "plan", "complete"]


def test_documents_that_appear_behind_the_cursor_are_found_by_the_next_pass(rig: Rig) -> None:
    rig.register(orders())
    rig.interrupt = at("documents.read", lambda: rig.db.orders.insert_one(old(-1)), arrival=5)
    assert rig.run() is Status.COMPLETED
    assert_exact(rig, COUNT + 1)
    assert rig.status().pass_number == 2


def test_an_empty_collection_is_done_at_once(db: Database[Any]) -> None:
    rig = Rig(db=db)
    rig.register(orders(max_parallel=4))
    assert rig.run(lanes=4) is Status.COMPLETED
    progress = rig.status().progress
    assert (progress.done, progress.estimate, progress.percent) == (0, 0, 100.0)


def test_stop_ends_a_lane_between_two_batches(rig: Rig) -> None:
    rig.register(orders())
    stop = StopEvent()
    rig.interrupt = at("documents.write_same.committed", lambda: stop.set("shutdown"), arrival=2)
    assert rig.run(stop=stop) is None
    assert rig.migrated() == 20
    assert rig.status().leases == ()
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


def test_a_file_that_is_another_one_on_this_worker_is_waited_for_and_told_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.register(orders())
    rig.coordinate()

    def never(doc: Document) -> Document:
        raise AssertionError("the wrong code must not run")

    rig.give(orders(migrate=never), text="2")
    reason = f"the file differs from the registered one; `migronaut background repin {NAME}` uses the file as it is now"
    assert rig.coordinate() == Wait(reason=reason, for_operator=True)
    rig.coordinate()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [f"{NAME}: {reason}"]
    status = rig.status()
    assert (status.file, status.notice) == ("changed", reason)
    result = rig.slice()
    assert result.outcome is Outcome.WAITING
    assert "differs from the registered one" in str(result.reason)
    assert result.retry_after > 0
    assert rig.migrated() == 0
    rig.give(orders())
    assert rig.status().notice is None
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


def test_a_state_of_a_newer_release_is_left_alone(rig: Rig) -> None:
    rig.register(orders())
    rig.coordinate()
    rig.db[STATES].update_one({"_id": NAME}, {"$set": {"schema": 2, "unheard_of": 1}})
    before = rig.db[STATES].find_one({"_id": NAME})
    answer = rig.coordinate()
    assert isinstance(answer, Wait)
    assert "newer release" in answer.reason
    assert rig.slice().outcome is Outcome.STALE
    assert rig.migrated() == 0
    with pytest.raises(BackgroundConflictError):
        controls.pause(rig.ports, NAME, ANN)
    assert rig.db[STATES].find_one({"_id": NAME}) == before


def test_a_lane_stops_when_a_newer_release_takes_the_state_over(rig: Rig) -> None:
    rig.register(orders())
    rig.coordinate()

    def deploy() -> None:
        rig.db[STATES].update_one({"_id": NAME}, {"$set": {"schema": 2}})

    rig.interrupt = at("documents.write_same.committed", deploy, arrival=2)
    rig.slice()
    assert rig.migrated() == 20
    assert rig.db[LANES].count_documents({"lease": {"$exists": True}}) == 0


def test_lanes_do_not_start_before_the_migration_does(rig: Rig) -> None:
    rig.register(orders(migrate=to_shipping))
    assert rig.slice().outcome is Outcome.STALE
    assert rig.migrated() == 0
