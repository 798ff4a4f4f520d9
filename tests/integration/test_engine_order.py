"""Migrations that follow each other by version on one collection: whatever starts first, no document stays behind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from pymongo.database import Database

from engine_kit import ANN, Document, Rig, at, in_background, orders
from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.state import Direction, Status
from migronaut.engine.drive import drive_all
from migronaut.engine.operator import controls
from migronaut.engine.operator.registering import register
from migronaut.engine.operator.verify import OnDrift, verify
from migronaut.engine.stopping import StopEvent
from waiting import wait_until

ONE, TWO, THREE = "0001_one.py", "0002_two.py", "0003_three.py"
CHAIN = (ONE, TWO, THREE)
EACH = 60


def step(version: int, **settings: Any) -> Any:
    """From one version to the next; every document counts the steps that it went."""

    def migrate(doc: Document) -> Document:
        return doc | {"steps": [*doc["steps"], version]}

    def revert(doc: Document) -> Document:
        return doc | {"steps": [*doc["steps"], -version]}

    return orders(from_version=version, to_version=version + 1, migrate=migrate, revert=revert, **settings)


def seeded(db: Database[Any], versions: Sequence[int] = (1, 2, 3)) -> None:
    """Documents of all versions, mixed."""
    db.orders.insert_many(
        [{"_id": number, "schema_version": versions[number % len(versions)], "steps": []} for number in range(3 * EACH)]
    )


def assert_all_went_every_step(db: Database[Any], last: int = 4) -> None:
    """Each is in the newest shape, and went every step once, in order."""
    for doc in db.orders.find():
        assert doc["schema_version"] == last, doc
        assert doc["steps"] == list(range(last - len(doc["steps"]), last)), doc
    assert db.orders.count_documents({"schema_version": last}) == 3 * EACH


def reason(answer: object) -> str:
    assert isinstance(answer, Wait), answer
    return answer.reason


@pytest.fixture
def rig(db: Database[Any]) -> Rig:
    seeded(db)
    return another(db)


def another(db: Database[Any]) -> Rig:
    """A process of its own, with the same files."""
    made = Rig(db=db)
    for version, name in enumerate(CHAIN, start=1):
        made.give(step(version), name=name)
    return made


def registered(rig: Rig, *names: str, direction: Direction = Direction.FORWARD) -> None:
    for name in names:
        register(rig.ports, name, direction=direction, registration=uuid4().hex, request=ANN)


def test_a_later_one_waits_from_the_start_and_says_for_what(rig: Rig) -> None:
    registered(rig, *CHAIN)
    statuses = [rig.status(name) for name in CHAIN]
    assert [status.status for status in statuses] == ["pending", "blocked", "blocked"]
    assert [status.waits_for for status in statuses] == [(), (ONE,), (ONE, TWO)]
    assert reason(rig.coordinate(name=TWO)) == f"waits for {ONE}, which makes version 2"
    assert (
        reason(rig.coordinate(name=THREE))
        == f"waits for {ONE}, which makes version 2, and {TWO}, which makes version 3"
    )


def test_two_processes_that_work_all_of_them_leave_nothing_behind(rig: Rig, db: Database[Any]) -> None:
    """The first one stands still in the middle of the first migration, until the second process has looked at all."""
    registered(rig, *CHAIN)
    looked = threading.Event()
    rig.interrupt = at("documents.write_same.before-commit", lambda: looked.wait(30), arrival=3)
    other = another(db)

    def look_then_work() -> None:
        while not isinstance(other.coordinate(name=ONE), Process):
            pass
        for name in (TWO, THREE):
            wait_until(lambda name=name: reason(other.coordinate(name=name)).startswith("waits for"), what=name)
        looked.set()
        drive_all(other.engine, CHAIN, owner=other.owner, stop=StopEvent())

    with in_background(look_then_work):
        drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    assert [rig.status(name).status for name in CHAIN] == ["completed"] * 3
    assert_all_went_every_step(db)
    assert sum(rig.status(name).totals.migrated for name in CHAIN) == EACH * (3 + 2 + 1)


def test_one_that_is_registered_while_a_later_one_works_is_waited_for_at_the_end(rig: Rig, db: Database[Any]) -> None:
    registered(rig, TWO)
    rig.interrupt = at("documents.write_same.committed", lambda: registered(rig, ONE), arrival=2)
    assert isinstance(rig.coordinate(name=TWO), Process)
    rig.engine.run_slice(TWO, owner=rig.owner, stop=StopEvent())
    status = rig.status(TWO)
    assert (status.status, status.totals.migrated, status.waits_for) == ("running", EACH, (ONE,))
    assert reason(rig.coordinate(name=TWO)) == f"waits for {ONE}, which makes version 2"
    assert rig.run(name=ONE) is Status.COMPLETED
    assert rig.run(name=TWO) is Status.COMPLETED
    assert rig.status(TWO).totals.migrated == 2 * EACH
    registered(rig, THREE)
    assert rig.run(name=THREE) is Status.COMPLETED
    assert_all_went_every_step(db)


def test_waiting_uses_up_no_passes(db: Database[Any]) -> None:
    seeded(db, (1, 2, 2))
    rig = Rig(db=db)
    rig.give(step(1, batch_size=1), name=ONE)
    rig.give(step(2, max_passes=2), name=TWO)
    registered(rig, TWO, ONE)
    assert isinstance(rig.coordinate(name=ONE), Process)
    for _ in range(5):
        rig.engine.run_slice(ONE, owner=rig.owner, stop=StopEvent(), slice_length=0.001)
        assert reason(rig.coordinate(name=TWO)).startswith(f"waits for {ONE}")
    assert rig.run(name=ONE) is Status.COMPLETED
    assert rig.run(name=TWO) is Status.COMPLETED
    assert_all_went_every_step(db, last=3)


def test_what_a_newly_registered_one_makes_is_done_by_the_later_one_that_had_completed(
    rig: Rig, db: Database[Any]
) -> None:
    """Without the index on the version, which the drift poll would need."""
    registered(rig, TWO)
    assert rig.run(name=TWO) is Status.COMPLETED
    registered(rig, ONE)
    assert rig.run(name=ONE) is Status.COMPLETED
    assert rig.status(TWO).status == Status.RUNNING
    assert rig.status(TWO).history[-1].reason == f"{ONE} made documents for it"
    assert rig.run(name=TWO) is Status.COMPLETED
    assert db.orders.count_documents({"schema_version": 3}) == 3 * EACH


def test_what_completed_is_left_alone_where_nothing_was_made_for_it(rig: Rig, db: Database[Any]) -> None:
    registered(rig, TWO)
    assert rig.run(name=TWO) is Status.COMPLETED
    db.orders.delete_many({"schema_version": 1})
    registered(rig, ONE)
    assert rig.run(name=ONE) is Status.COMPLETED
    assert (rig.status(TWO).status, rig.status(TWO).reopened) == (Status.COMPLETED, 0)


def test_a_coordinator_that_stood_still_before_it_saved_completes_nothing_that_has_become_untrue(
    rig: Rig, db: Database[Any]
) -> None:
    """It counted 0 before the first migration existed; then that one makes the documents, and completes, all of it."""
    registered(rig, TWO)
    assert isinstance(rig.coordinate(name=TWO), Process)
    rig.engine.run_slice(TWO, owner=rig.owner, stop=StopEvent())
    other = another(db)

    def all_of_the_first() -> None:
        registered(other, ONE)
        assert other.run(name=ONE) is Status.COMPLETED

    rig.interrupt = at("store.save", all_of_the_first)
    assert rig.run(name=TWO) is Status.COMPLETED
    assert rig.actions(TWO) == ["plan", "complete"]
    assert db.orders.count_documents({"schema_version": 3}) == 3 * EACH


def test_a_cancelled_one_holds_nobody_up_and_is_followed_when_it_is_taken_up_again(rig: Rig, db: Database[Any]) -> None:
    registered(rig, ONE, TWO)
    controls.cancel(rig.ports, ONE, ANN)
    assert rig.run(name=TWO) is Status.COMPLETED
    controls.retry(rig.ports, ONE, ANN, from_start=False)
    assert rig.run(name=ONE) is Status.COMPLETED
    assert rig.run(name=TWO) is Status.COMPLETED
    assert db.orders.count_documents({"schema_version": 3}) == 3 * EACH


def test_a_failed_one_holds_up_and_says_so(rig: Rig) -> None:
    rig.give(step(1, filter={"steps": {"$exists": True}}), name=ONE)
    registered(rig, *CHAIN)
    rig.db.orders.update_one({"_id": 0}, {"$unset": {"steps": ""}})
    rig.db.orders.update_one({"_id": 3}, {"$set": {"steps": 7}})
    assert rig.run(name=ONE) is Status.FAILED
    waiting = rig.coordinate(name=THREE)
    assert reason(waiting) == (
        f"waits for {ONE}, which failed: 1 document could not be migrated; max_document_errors allows 0"
    )
    driven = drive_all(rig.engine, CHAIN[1:], owner=rig.owner, stop=StopEvent())
    assert set(driven.held) == {TWO, THREE}
    controls.retry(rig.ports, ONE, ANN, from_start=False)
    controls.cancel(rig.ports, ONE, ANN)
    rig.db.orders.delete_many({"_id": {"$in": [0, 3]}})
    assert drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent()).held == {}
    assert rig.status(THREE).status == Status.COMPLETED


def test_a_blocked_one_that_was_cancelled_and_taken_up_again_waits_as_before(rig: Rig) -> None:
    """By predicate, so that only its file says what it waits for."""
    by_predicate = {"from_version": None, "to_version": None, "filter": {"steps": []}}
    rig.give(orders(**by_predicate), name=TWO, requires=(ONE,))
    registered(rig, ONE, TWO)
    controls.cancel(rig.ports, TWO, ANN)
    controls.retry(rig.ports, TWO, ANN, from_start=False)
    assert reason(rig.coordinate(name=TWO)) == f"waits for {ONE}, which is pending"
    assert rig.status(TWO).waits_for == (ONE,)
    assert rig.run(name=ONE) is Status.COMPLETED
    assert isinstance(rig.coordinate(name=TWO), Done | Process)


def test_a_paused_one_holds_up_until_it_is_resumed(rig: Rig, db: Database[Any]) -> None:
    registered(rig, *CHAIN)
    controls.pause(rig.ports, ONE, ANN)
    assert reason(rig.coordinate(name=TWO)) == f"waits for {ONE}, which makes version 2 and is paused"
    controls.pause(rig.ports, TWO, ANN)
    resumed = controls.resume(rig.ports, TWO, ANN).state
    assert (resumed.status, resumed.waits_for) == (Status.BLOCKED, (ONE,))
    controls.resume(rig.ports, ONE, ANN)
    drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    assert_all_went_every_step(db)


def test_the_drift_of_one_is_followed_by_all_that_come_later(rig: Rig, db: Database[Any]) -> None:
    """An old release wrote one document of the first shape; only the first migration has drifted then."""
    db.orders.create_index([("schema_version", 1), ("_id", 1)])
    registered(rig, *CHAIN)
    drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    db.orders.replace_one({"_id": 5}, {"schema_version": 1, "steps": []})
    (found,) = verify(rig.ports, OnDrift.REOPEN).drift
    assert found.migration == ONE
    for name in CHAIN:
        assert rig.run(name=name) is Status.COMPLETED
    assert_all_went_every_step(db)


def test_the_drift_poll_says_which_one_is_active(rig: Rig) -> None:
    registered(rig, ONE)
    assert rig.run(name=ONE) is Status.COMPLETED
    registered(rig, TWO)
    controls.pause(rig.ports, TWO, ANN)
    assert verify(rig.ports, OnDrift.REOPEN).skipped == ((ONE, f"{TWO} of the same collection is paused"),)


def test_drift_of_one_that_had_completed_is_found_when_a_later_one_is_registered(rig: Rig, db: Database[Any]) -> None:
    registered(rig, ONE)
    assert rig.run(name=ONE) is Status.COMPLETED
    registered(rig, TWO)
    assert rig.run(name=TWO) is Status.COMPLETED
    db.orders.replace_one({"_id": 5}, {"schema_version": 1, "steps": []})
    registered(rig, THREE)
    assert [rig.status(name).status for name in CHAIN] == ["running", "completed", "blocked"]
    drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    assert [rig.status(name).status for name in CHAIN] == ["completed"] * 3
    assert_all_went_every_step(db)


def test_the_ways_back_follow_each_other_the_other_way_round(rig: Rig, db: Database[Any]) -> None:
    registered(rig, *CHAIN)
    drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    registered(rig, *reversed(CHAIN), direction=Direction.REVERT)
    assert [rig.status(name).waits_for for name in CHAIN] == [(TWO, THREE), (THREE,), ()]
    assert reason(rig.coordinate(name=TWO)) == f"waits for {THREE}, which makes version 3"
    drive_all(rig.engine, CHAIN, owner=rig.owner, stop=StopEvent())
    assert db.orders.count_documents({"schema_version": 1}) == 3 * EACH
    assert all(doc["steps"][-3:] == [-3, -2, -1] for doc in db.orders.find())
