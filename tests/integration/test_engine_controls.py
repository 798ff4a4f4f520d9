"""What an operator does while lanes work, and what follows: each with its line in the history."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pymongo.database import Database

from engine_kit import LANES, NAME, STATES, Document, Rig, assert_migrated_once, at, in_background, old, orders, to_shipping
from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.lane import Outcome
from migronaut.core.state import Partitioning, Status
from migronaut.engine import controls
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent
from migronaut.engine.verify import OnDrift, verify
from migronaut.errors import BackgroundConflictError

ANN = Request(by="ann", reason="because")
COUNT = 200
LATER = "20260202000000_later.py"


def seeded(db: Database[Any], count: int = COUNT) -> None:
    db.orders.insert_many([old(number) for number in range(count)])


@pytest.fixture
def rig(db: Database[Any]) -> Rig:
    seeded(db)
    return Rig(db=db)


def migrated(rig: Rig) -> int:
    return rig.db.orders.count_documents({"migrations": 1})


def assert_exact(rig: Rig, count: int = COUNT) -> None:
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.scanned) == (count, count)
    assert rig.db[LANES].count_documents({"lease": {"$exists": True}}) == 0


@pytest.mark.parametrize("lanes", [1, 4])
def test_pause_stops_lanes_at_their_next_batch_and_resume_goes_on(rig: Rig, lanes: int) -> None:
    rig.register(orders(max_parallel=lanes, partitions=Partitioning(min_documents=20)))
    rig.interrupt = at("documents.write_same.committed", lambda: controls.pause(rig.ports, NAME, ANN), arrival=3)
    assert rig.run(lanes=lanes) is Status.PAUSED
    done = migrated(rig)
    assert 30 <= done < COUNT
    assert (rig.totals.migrated, rig.status().leases) == (done, ())
    assert not controls.pause(rig.ports, NAME, ANN).changed
    assert controls.resume(rig.ports, NAME, ANN).changed
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_exact(rig)
    assert rig.actions() == ["plan", "pause", "resume", "plan", "complete"]
    assert [(entry.by, entry.reason) for entry in rig.status().history if entry.action == "pause"] == [("ann", "because")]


def test_pause_and_wait_returns_when_no_lane_works_any_more(rig: Rig) -> None:
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=20)))
    working = threading.Event()
    rig.interrupt = at("documents.read", working.set, arrival=2)
    with in_background(lambda: rig.run(lanes=2)):
        assert working.wait(10)
        waited = controls.wait_for_lanes(rig.ports, controls.pause(rig.ports, NAME, ANN), StopEvent())
        assert waited.stopped
        done = migrated(rig)
    assert migrated(rig) == done < COUNT


def test_cancel_ends_it_where_it_is_and_retry_goes_on_there(rig: Rig) -> None:
    rig.register(orders())
    rig.interrupt = at("documents.write_same.committed", lambda: controls.cancel(rig.ports, NAME, ANN), arrival=3)
    assert rig.run() is Status.CANCELLED
    assert migrated(rig) == rig.totals.migrated == 30
    assert rig.coordinate() == Done(Status.CANCELLED)
    with pytest.raises(BackgroundConflictError):
        controls.resume(rig.ports, NAME, ANN)
    assert controls.retry(rig.ports, NAME, ANN, from_start=False).changed
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)
    assert rig.actions() == ["plan", "cancel", "retry", "plan", "complete"]


def test_retry_from_the_start_plans_again_with_empty_totals(rig: Rig) -> None:
    rig.register(orders())
    rig.interrupt = at("documents.write_same.committed", lambda: controls.cancel(rig.ports, NAME, ANN), arrival=3)
    assert rig.run() is Status.CANCELLED
    controls.retry(rig.ports, NAME, ANN, from_start=True)
    assert rig.totals.migrated == 0
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.scanned, rig.status().pass_number) == (COUNT - 30, COUNT - 30, 1)


def test_retry_from_the_start_while_a_lane_still_works_fences_it_off(rig: Rig) -> None:
    """Its plan is gone; whatever it commits late is under its lease or not at all."""
    rig.register(orders())

    def again() -> None:
        controls.cancel(rig.ports, NAME, ANN)
        controls.retry(rig.ports, NAME, ANN, from_start=True)
        rig.coordinate()

    rig.interrupt = at("documents.write_same.compared", again, arrival=2)
    rig.coordinate()
    assert rig.slice().outcome is Outcome.LOST
    assert migrated(rig) == 10
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert rig.totals.migrated == COUNT - 10


def test_a_pinned_change_of_lanes_drains_the_old_plan_and_cuts_anew(rig: Rig) -> None:
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=20)))

    def widen() -> None:
        rig.give(orders(max_parallel=4, partitions=Partitioning(min_documents=10)), text="2")
        assert controls.repin(rig.ports, NAME, ANN).changed

    rig.interrupt = at("documents.write_same.committed", widen, arrival=3)
    assert rig.run(lanes=4) is Status.COMPLETED
    assert_exact(rig)
    status = rig.status()
    assert (status.pass_number, status.generation, status.max_parallel) == (1, 2, 4)
    assert rig.actions() == ["plan", "repin", "complete"]


def test_a_lane_of_the_old_plan_keeps_a_new_one_waiting(rig: Rig) -> None:
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=20)))
    answers: list[object] = []

    def narrow() -> None:
        rig.give(orders(max_parallel=1), text="2")
        controls.repin(rig.ports, NAME, ANN)
        answers.append(rig.coordinate())

    rig.interrupt = at("documents.read", narrow)
    rig.coordinate()
    assert rig.slice().outcome is Outcome.STALE
    assert answers == [Wait(reason="lanes of the old plan are ending", retry_after=1.0)]
    assert rig.coordinate() == Process(lanes=1, slots=1)
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


def test_unlock_fences_off_a_live_lane_which_goes_on_with_another_claim(rig: Rig) -> None:
    rig.register(orders())
    taken: list[int] = []
    rig.interrupt = at(
        "documents.write_same.compared", lambda: taken.append(controls.unlock(rig.ports, NAME).lanes), arrival=2
    )
    assert rig.run() is Status.COMPLETED
    assert taken == [1]
    assert_exact(rig)
    assert not controls.unlock(rig.ports, NAME).changed


def test_an_unlocked_lane_with_the_revision_guard_repeats_nothing(standalone_db: Database[Any]) -> None:
    """Its writes are there, its checkpoint is refused; the next claim reads behind the last one."""
    seeded(standalone_db)
    rig = Rig(db=standalone_db)
    rig.register(orders(revision_field="rev"))
    rig.interrupt = at("documents.write_guarded.written", lambda: controls.unlock(rig.ports, NAME), arrival=2)
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert standalone_db.orders.count_documents({"rev": 1}) == COUNT
    assert rig.totals.scanned == COUNT - 10


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
    assert [name for name, _ in verified.skipped] == [NAME]


def test_what_requires_another_waits_for_it(rig: Rig) -> None:
    rig.give(orders(), name=NAME)
    later = orders(from_version=2, to_version=3, migrate=lambda doc: doc | {"third": True})
    rig.register(later, name=LATER, requires=(NAME,))
    assert rig.status(LATER).status == Status.BLOCKED
    assert rig.status(LATER).waits_for == (NAME,)
    assert rig.coordinate(name=LATER) == Wait(reason=f"waits for {NAME}")
    rig.register()
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
    assert migrated(rig) == 20
    assert rig.status().leases == ()
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


def test_a_file_that_is_another_one_on_this_worker_is_waited_for(rig: Rig) -> None:
    rig.register(orders())
    rig.coordinate()

    def never(doc: Document) -> Document:
        raise AssertionError("the wrong code must not run")

    rig.give(orders(migrate=never), text="2")
    reason = "the migration file is changed on this worker (a deploy under way?)"
    assert rig.coordinate() == Wait(reason=reason)
    result = rig.slice()
    assert (result.outcome, result.reason) == (Outcome.WAITING, "the migration file is changed")
    assert result.retry_after > 0
    assert migrated(rig) == 0
    rig.give(orders())
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
    assert migrated(rig) == 0
    with pytest.raises(BackgroundConflictError):
        controls.pause(rig.ports, NAME, ANN)
    assert rig.db[STATES].find_one({"_id": NAME}) == before


def test_a_lane_stops_when_a_newer_release_takes_the_state_over(rig: Rig) -> None:
    rig.register(orders())
    newer = {"$set": {"schema": 2}}
    rig.coordinate()
    rig.interrupt = at("documents.write_same.committed", lambda: rig.db[STATES].update_one({"_id": NAME}, newer), arrival=2)
    rig.slice()
    assert migrated(rig) == 20
    assert rig.db[LANES].count_documents({"lease": {"$exists": True}}) == 0


def test_lanes_do_not_start_before_the_migration_does(rig: Rig) -> None:
    rig.register(orders(migrate=to_shipping))
    assert rig.slice().outcome is Outcome.STALE
    assert migrated(rig) == 0
