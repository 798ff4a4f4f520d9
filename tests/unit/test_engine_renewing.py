"""Retry and repin, in memory: what they fence off and refuse, and what one who dies in the middle leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from deployed_kit import (
    COUNT,
    LANE,
    NAME,
    Deployed,
    by_function,
    revert,
)
from engine_kit import ANN, assert_migrated_once, at, old, orders, to_shipping
from migronaut.core.lane import Outcome
from migronaut.core.state import Direction, Status
from migronaut.engine.drive import drive
from migronaut.engine.operator import controls
from migronaut.engine.operator.registering import register
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundConflictError

# ------------------------------------------------------------------ another file


def wrong(doc: dict[str, Any]) -> dict[str, Any]:
    return to_shipping(doc) | {"wrong": True}


def mend(deployed: Deployed, **settings: Any) -> None:
    """Put the mended file on disk."""
    deployed.catalog.give(NAME, orders(**settings), text="2")


def wrongly_migrated(deployed: Deployed) -> int:
    return sum("wrong" in document for document in deployed.documents().values())


# At the second arrival there, with what is committed before: a batch is read while the one before it is written.
FUNCTION_POINTS = [
    ("documents.read", 0),
    ("documents.write_same.compared", 10),
    ("documents.write_same.before-commit", 10),
]


@pytest.mark.parametrize(("point", "before"), FUNCTION_POINTS)
@pytest.mark.parametrize("settings", [{}, {"max_parallel": 2}])
def test_nothing_of_the_old_file_is_committed_after_a_retry_with_another_one(
    point: str, before: int, settings: dict[str, Any]
) -> None:
    """The lane is in the middle of a slow batch; its lease is alive."""
    deployed = Deployed(orders(migrate=wrong))

    def cancel_mend_and_retry() -> None:
        controls.cancel(deployed.ports, NAME, ANN)
        mend(deployed, **settings)
        done = controls.retry(deployed.ports, NAME, ANN, from_start=False, repin=True)
        assert (done.changed, done.repinned, done.state.status) == (True, True, Status.PENDING)
        deployed.coordinate()

    deployed.coordinate()
    deployed.server.interrupt = at(point, cancel_mend_and_retry, arrival=2)
    assert deployed.slice().outcome is Outcome.LOST
    assert deployed.run() is Status.COMPLETED
    assert wrongly_migrated(deployed) == before
    assert_migrated_once(deployed.documents())
    assert deployed.state().totals.migrated == COUNT
    assert [entry.action for entry in deployed.state().history if entry.by == "ann"] == [
        "register",
        "cancel",
        "repin",
        "retry",
    ]


@pytest.mark.parametrize(("point", "before"), FUNCTION_POINTS)
def test_nothing_of_the_old_file_is_committed_after_a_repin(point: str, before: int) -> None:
    deployed = Deployed(orders(migrate=wrong))

    def repin() -> None:
        mend(deployed)
        assert controls.repin(deployed.ports, NAME, ANN).changed

    deployed.coordinate()
    deployed.server.interrupt = at(point, repin, arrival=2)
    assert deployed.slice().outcome is Outcome.LOST
    assert deployed.run() is Status.COMPLETED
    assert wrongly_migrated(deployed) == before
    assert deployed.state().totals.migrated == COUNT
    assert deployed.state().generation == 1


def test_a_lane_of_the_old_file_that_claims_in_the_middle_of_a_repin_writes_nothing() -> None:
    """The state is marked, the leases are taken away; now it claims, before the other file is the registered one."""
    deployed = Deployed(orders(migrate=wrong))
    ends: list[Outcome] = []
    slices: list[Outcome] = []

    def repin() -> None:
        mend(deployed)
        deployed.server.interrupt = at("store.drop_leases", lambda: slices.append(deployed.slice().outcome))
        controls.repin(deployed.ports, NAME, ANN)

    def old_file() -> None:
        deployed.server.interrupt = at("store.load", repin, arrival=2)
        ends.append(deployed.slice().outcome)

    deployed.coordinate()
    old_file()
    # The lane that had claimed before, and read the state after; the other sees the mark before it claims.
    assert ends == [Outcome.YIELDED]
    assert slices == [Outcome.STALE]
    deployed.server.interrupt = None
    assert deployed.run() is Status.COMPLETED
    assert wrongly_migrated(deployed) == 0


class Killed(BaseException):
    """No code of ours may catch it."""


@pytest.mark.parametrize("point", ["store.drop_leases", "store.save"])
def test_an_operator_who_dies_in_the_middle_of_a_repin_leaves_the_old_file_and_work_that_goes_on(point: str) -> None:
    deployed = by_function()

    def kill() -> None:
        raise Killed

    deployed.coordinate()
    deployed.engine.run_slice(NAME, owner=LANE, stop=StopEvent(), slice_length=0.001)
    text = orders(revert=revert)
    deployed.catalog.give(NAME, text, text="2")
    deployed.server.interrupt = at(point, kill, arrival=1 if point == "store.drop_leases" else 2)
    with pytest.raises(Killed):
        controls.repin(deployed.ports, NAME, ANN)
    deployed.server.interrupt = None
    deployed.catalog.give(NAME, text)
    assert deployed.run() is Status.COMPLETED
    state = deployed.state()
    assert (state.checksum, state.pass_number, state.generation) == ("1", 1, 2)
    assert (state.totals.migrated, state.totals.scanned) == (COUNT, COUNT)


def test_two_operators_who_pin_files_at_once_do_it_one_after_the_other() -> None:
    deployed = Deployed(orders(migrate=wrong))

    def another() -> None:
        deployed.server.interrupt = None
        controls.pause(deployed.ports, NAME, ANN)

    deployed.coordinate()
    mend(deployed)
    deployed.server.interrupt = at("store.drop_leases", another)
    assert controls.repin(deployed.ports, NAME, ANN).state.status is Status.PAUSED
    state = deployed.state()
    assert state.checksum == "2"
    assert [entry.action for entry in state.history][-2:] == ["pause", "repin"]
    controls.resume(deployed.ports, NAME, ANN)
    assert deployed.run() is Status.COMPLETED
    assert wrongly_migrated(deployed) == 0


@pytest.mark.parametrize(("point", "before"), FUNCTION_POINTS)
def test_from_the_start_counts_from_the_start(point: str, before: int) -> None:
    """A lane in the middle of a batch commits before it, or never: its totals say what happened since."""
    deployed = by_function()

    def again() -> None:
        controls.cancel(deployed.ports, NAME, ANN)
        controls.retry(deployed.ports, NAME, ANN, from_start=True)

    deployed.coordinate()
    deployed.server.interrupt = at(point, again, arrival=2)
    assert deployed.slice().outcome is Outcome.LOST
    assert deployed.run() is Status.COMPLETED
    assert deployed.state().totals.migrated == COUNT - before


# ------------------------------------------------------------------ a file that never ran


def kinds(deployed: Deployed) -> None:
    """The collection as the application has written it: two kinds of documents."""
    collection = deployed.server.collection("orders")
    for number in range(COUNT):
        collection.update(number, {"$set": {"kind": "ab"[number % 2]}})


def test_a_completed_one_whose_file_matches_more_is_refused_with_the_way_on_which_runs_it() -> None:
    deployed = Deployed(orders(filter={"kind": "a"}))
    kinds(deployed)
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == COUNT / 2
    mend(deployed)
    with pytest.raises(BackgroundConflictError, match=r"retry a\.py --repin"):
        controls.repin(deployed.ports, NAME, ANN)
    assert deployed.state().checksum == "1"
    done = controls.retry(deployed.ports, NAME, ANN, from_start=False, repin=True)
    assert (done.changed, done.repinned, done.state.status) == (True, True, Status.RUNNING)
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == COUNT
    assert_migrated_once(deployed.documents())


def test_a_completed_one_whose_file_requires_another_waits_for_it_when_it_is_run_again() -> None:
    deployed = by_function()
    assert deployed.run() is Status.COMPLETED
    deployed.server.collection("orders").insert(old(COUNT))
    deployed.catalog.give("first.py", orders(collection="others"))
    deployed.catalog.give(NAME, orders(), text="2", requires=("first.py",))
    with pytest.raises(BackgroundConflictError, match="requires other"):
        controls.repin(deployed.ports, NAME, ANN)
    done = controls.retry(deployed.ports, NAME, ANN, from_start=False, repin=True)
    assert (done.state.status, done.state.waits_for) == (Status.BLOCKED, ("first.py",))
    register(deployed.ports, "first.py", direction=Direction.FORWARD, registration="f", request=ANN)
    assert drive(deployed.engine, "first.py", owner=LANE, stop=StopEvent()) is Status.COMPLETED
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == COUNT + 1


def test_a_file_that_requires_another_is_pinned_under_its_lanes_and_they_wait() -> None:
    deployed = by_function()
    deployed.catalog.give("first.py", orders(collection="others"))

    def repin() -> None:
        deployed.catalog.give(NAME, orders(), text="2", requires=("first.py",))
        assert controls.repin(deployed.ports, NAME, ANN).state.status is Status.BLOCKED

    deployed.coordinate()
    deployed.server.interrupt = at("documents.read", repin, arrival=2)
    assert deployed.slice().outcome is Outcome.LOST
    register(deployed.ports, "first.py", direction=Direction.FORWARD, registration="f", request=ANN)
    assert drive(deployed.engine, "first.py", owner=LANE, stop=StopEvent()) is Status.COMPLETED
    assert deployed.run() is Status.COMPLETED
    assert deployed.state().totals.migrated == COUNT


def test_the_way_back_requires_nothing_whatever_its_file_says() -> None:
    deployed = by_function()
    deployed.run()
    deployed.register(Direction.REVERT)
    deployed.catalog.give("first.py", orders(collection="others"))
    deployed.catalog.give(NAME, orders(revert=revert), text="2", requires=("first.py",))
    controls.repin(deployed.ports, NAME, ANN)
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == 0


def test_a_retry_of_a_completed_one_with_nothing_left_changes_nothing_and_says_so() -> None:
    deployed = by_function()
    deployed.run()
    before = deployed.state()
    done = controls.retry(deployed.ports, NAME, ANN, from_start=False)
    assert (done.changed, done.note) == (False, "no document is left to migrate")
    assert deployed.state() == before
    deployed.server.collection("orders").insert(old(COUNT))
    assert controls.retry(deployed.ports, NAME, ANN, from_start=False).changed
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == COUNT + 1


def test_a_retry_of_a_completed_one_takes_what_was_left_out() -> None:
    broken = [3]

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        if doc["_id"] in broken:
            raise ValueError
        return to_shipping(doc)

    deployed = Deployed(orders(migrate=migrate, max_document_errors=1))
    assert deployed.run() is Status.COMPLETED
    broken.clear()
    assert controls.retry(deployed.ports, NAME, ANN, from_start=False).changed
    assert deployed.run() is Status.COMPLETED
    assert deployed.migrated() == COUNT
