"""What an operator does while lanes work, and what follows: each with its line in the history."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import (
    ANN,
    COUNT,
    NAME,
    Rig,
    assert_exact,
    assert_migrated_once,
    at,
    in_background,
    orders,
    seeded,
    to_shipping,
)
from migronaut.core.coordinator import Done, Process
from migronaut.core.lane import Outcome
from migronaut.core.state import Partitioning, Status
from migronaut.engine.operator import controls
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundConflictError
from migronaut.migrator import Migrator


@pytest.fixture
def rig(db: Database[Any]) -> Rig:
    seeded(db)
    return Rig(db=db)


@pytest.mark.parametrize("lanes", [1, 4])
def test_pause_stops_lanes_at_their_next_batch_and_resume_goes_on(rig: Rig, lanes: int) -> None:
    rig.register(orders(max_parallel=lanes, partitions=Partitioning(min_documents=20)))
    rig.interrupt = at("documents.write_same.committed", lambda: controls.pause(rig.ports, NAME, ANN), arrival=3)
    assert rig.run(lanes=lanes) is Status.PAUSED
    done = rig.migrated()
    assert 30 <= done < COUNT
    assert (rig.totals.migrated, rig.status().leases) == (done, ())
    assert not controls.pause(rig.ports, NAME, ANN).changed
    assert controls.resume(rig.ports, NAME, ANN).changed
    assert rig.run(lanes=lanes) is Status.COMPLETED
    assert_exact(rig)
    assert rig.actions() == ["plan", "pause", "resume", "plan", "complete"]
    (paused,) = (entry for entry in rig.status().history if entry.action == "pause")
    assert (paused.by, paused.reason) == ("ann", "because")


def test_pause_and_wait_returns_when_no_lane_works_any_more(rig: Rig) -> None:
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=20)))
    working = threading.Event()
    rig.interrupt = at("documents.read", working.set, arrival=2)
    with in_background(lambda: rig.run(lanes=2)):
        assert working.wait(10)
        waited = controls.wait_for_lanes(rig.ports, controls.pause(rig.ports, NAME, ANN), StopEvent())
        assert waited.stopped
        done = rig.migrated()
    assert rig.migrated() == done < COUNT


def test_cancel_ends_it_where_it_is_and_retry_goes_on_there(rig: Rig) -> None:
    rig.register(orders())
    rig.interrupt = at("documents.write_same.committed", lambda: controls.cancel(rig.ports, NAME, ANN), arrival=3)
    assert rig.run() is Status.CANCELLED
    assert rig.migrated() == rig.totals.migrated == 30
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
    assert rig.migrated() == 10
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


def test_a_lane_of_the_old_plan_is_fenced_off_by_the_new_one(rig: Rig) -> None:
    rig.register(orders(max_parallel=2, partitions=Partitioning(min_documents=20)))
    answers: list[object] = []

    def narrow() -> None:
        rig.give(orders(max_parallel=1), text="2")
        controls.repin(rig.ports, NAME, ANN)
        answers.append(rig.coordinate())

    rig.interrupt = at("documents.read", narrow)
    rig.coordinate()
    assert rig.slice().outcome is Outcome.LOST
    assert answers == [Process(lanes=1, slots=1)]
    assert rig.run() is Status.COMPLETED
    assert_exact(rig)


def test_a_pinned_correction_is_used_from_the_next_batch_on(rig: Rig) -> None:
    """A lane in the middle of a slice does not go on with the file that was found wrong."""
    rig.register(orders(migrate=lambda doc: to_shipping(doc) | {"wrong": True}))

    def correct() -> None:
        rig.give(orders(), text="2")
        assert controls.repin(rig.ports, NAME, ANN).changed

    rig.interrupt = at("documents.write_same.committed", correct, arrival=2)
    assert rig.run() is Status.COMPLETED
    assert rig.db.orders.count_documents({"wrong": True}) == 20
    assert_exact(rig)
    assert rig.status().generation == 1


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


def test_repinning_with_a_retry_says_so_also_when_no_retry_was_needed(
    client: MongoClient[dict[str, Any]], db: Database[Any], tmp_path: Path
) -> None:
    file = tmp_path / "0001_orders.py"
    text = (
        "from migronaut import Background\n"
        'background = Background(collection="orders", from_version=1, to_version=2, migrate=lambda doc: doc)\n'
    )
    file.write_text(text)
    background = Migrator(client=client, db=db.name, migrations_dir=tmp_path).background
    background.register(file.name)
    file.write_text(text + "# mended\n")
    done = background.retry(file.name, repin=True)
    assert (done.changed, done.repinned, done.state.status) == (False, True, Status.PENDING)
    background.cancel(file.name)
    again = background.retry(file.name, repin=True)
    assert (again.changed, again.repinned, again.state.status) == (True, False, Status.PENDING)
