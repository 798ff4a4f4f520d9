"""Lanes that stood still past their lease, in memory: what was done meanwhile fences them off."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from attrs import evolve

from deployed_kit import (
    COUNT,
    LEASE_TTL,
    NAME,
    REVERT_STAGES,
    Control,
    Deployed,
    by_function,
    by_pipeline,
    revert,
)
from engine_kit import ANN, assert_migrated_once, at, in_background, old, orders, piped
from migronaut.core.coordinator import Process, Wait
from migronaut.core.lane import Outcome
from migronaut.core.ports import UnavailableError
from migronaut.core.state import Direction, Partitioning, PartitionStatus, Status
from migronaut.engine.operator import controls
from migronaut.engine.stopping import StopEvent

POINTS = [
    (by_function, "documents.write_same.compared"),
    (by_function, "documents.write_same.before-commit"),
    (by_pipeline, "documents.rewrite_fenced.rewritten"),
    (by_pipeline, "documents.rewrite_fenced.before-commit"),
]


@pytest.mark.parametrize("control", [controls.pause, controls.cancel])
@pytest.mark.parametrize(("make", "point"), POINTS)
def test_once_it_says_stopped_a_lane_that_stood_still_commits_nothing(
    make: Callable[[], Deployed], point: str, control: Control
) -> None:
    deployed = make()
    seen: list[tuple[bool, int]] = []

    def stop_it() -> None:
        told = controls.wait_for_lanes(deployed.ports, control(deployed.ports, NAME, ANN), StopEvent())
        seen.append((told.stopped, deployed.migrated()))

    deployed.coordinate()
    deployed.freeze_at(point, stop_it)
    assert deployed.slice().outcome is Outcome.LOST
    assert seen == [(True, 10)]
    assert deployed.migrated() == 10


def test_a_claim_before_the_pause_is_waited_for() -> None:
    """It claims, and before it has looked at the state the operator has paused and looked for lanes."""
    deployed = by_function()
    store = deployed.ports.store
    seen: list[bool] = []
    arrivals: list[str] = []
    stop = StopEvent()
    stop.set("a test does not wait")

    def interrupt(point: str) -> None:
        arrivals.append(point)
        if point == "store.load" and arrivals[-2:-1] == ["store.claim"]:
            paused = controls.pause(deployed.ports, NAME, ANN)
            seen.append(controls.wait_for_lanes(deployed.ports, paused, stop).stopped)

    deployed.coordinate()
    deployed.server.interrupt = interrupt
    assert deployed.slice().outcome is Outcome.PAUSED
    assert (seen, deployed.migrated(), store.leases(NAME)) == ([False], 0, ())


def test_a_claim_after_the_pause_sees_it_before_it_writes() -> None:
    deployed = by_function()
    seen: list[bool] = []

    def pause() -> None:
        paused = controls.pause(deployed.ports, NAME, ANN)
        seen.append(controls.wait_for_lanes(deployed.ports, paused, StopEvent()).stopped)

    deployed.coordinate()
    deployed.server.interrupt = at("store.claim", pause)
    assert deployed.slice().outcome is Outcome.PAUSED
    assert (seen, deployed.migrated()) == ([True], 0)


@pytest.mark.parametrize(("make", "point"), POINTS)
def test_a_plan_made_anew_counts_all_that_its_lanes_ever_commit(make: Callable[..., Deployed], point: str) -> None:
    """The lane wakes up just after the counters of its plan were taken into the totals."""
    deployed = make(max_parallel=2, partitions=Partitioning(min_documents=5))
    deployed.coordinate()
    frozen, woken, ended = threading.Event(), threading.Event(), threading.Event()
    ends: list[Outcome] = []

    def freeze() -> None:
        frozen.set()
        assert woken.wait(10)

    def wake() -> None:
        woken.set()
        assert ended.wait(10)

    def work() -> None:
        ends.append(deployed.slice().outcome)
        ended.set()

    freezing, waking = at(point, freeze, arrival=2), at("store.add_partitions", wake)
    deployed.server.interrupt = lambda reached: (freezing(reached), waking(reached))
    with in_background(work):
        assert frozen.wait(10)
        deployed.server.clock.advance(LEASE_TTL + 1)
        narrower = orders(revert=revert) if make is by_function else piped(revert_pipeline=REVERT_STAGES)
        deployed.catalog.give(NAME, narrower, text="2")
        controls.repin(deployed.ports, NAME, ANN)
        deployed.coordinate()
    assert ends == [Outcome.LOST]
    assert deployed.run() is Status.COMPLETED
    assert_migrated_once(deployed.documents())
    state = deployed.state()
    assert (state.generation, state.totals.migrated, state.totals.scanned) == (2, COUNT, COUNT)


@pytest.mark.parametrize(("make", "point"), POINTS)
def test_nothing_is_migrated_after_a_revert_has_completed(make: Callable[[], Deployed], point: str) -> None:
    deployed = make()

    def turn_round() -> None:
        controls.cancel(deployed.ports, NAME, ANN)
        deployed.register(Direction.REVERT)
        assert deployed.run() is Status.COMPLETED

    deployed.coordinate()
    deployed.freeze_at(point, turn_round)
    assert deployed.slice().outcome is Outcome.LOST
    assert deployed.migrated() == 0


@pytest.mark.parametrize(("make", "point"), POINTS)
def test_a_lane_that_is_alive_writes_nothing_after_its_migration_was_turned_round(
    make: Callable[[], Deployed], point: str
) -> None:
    """Its lease has long to live: the plan of the way back takes it away."""
    deployed = make()

    def turn_round() -> None:
        controls.cancel(deployed.ports, NAME, ANN)
        deployed.register(Direction.REVERT)
        assert deployed.run() is Status.COMPLETED

    deployed.coordinate()
    deployed.server.interrupt = at(point, turn_round, arrival=2)
    assert deployed.slice().outcome is Outcome.LOST
    assert deployed.migrated() == 0


def test_a_verdict_waits_until_a_majority_has_what_it_rests_on() -> None:
    deployed = by_function()
    away = 3

    def interrupt(point: str) -> None:
        nonlocal away
        if point == "documents.settle" and away:
            away -= 1
            raise UnavailableError("no majority")

    deployed.coordinate()
    deployed.slice()
    deployed.server.interrupt = interrupt
    answer = deployed.coordinate()
    assert isinstance(answer, Wait)
    assert "majority" in answer.reason
    assert deployed.state().status is Status.RUNNING
    assert deployed.run() is Status.COMPLETED
    assert away == 0


def test_a_pass_that_a_failover_opened_again_is_not_judged() -> None:
    """Behind the barrier its last checkpoint is gone, and with it what had been written."""
    deployed = by_function()

    def undo() -> None:
        collection = deployed.server.collection("orders")
        collection.replace(COUNT - 1, {name: value for name, value in old(COUNT - 1).items() if name != "_id"})
        deployed.server.partitions.update(before)

    deployed.coordinate()
    before = {id_: evolve(each, status=PartitionStatus.RUNNING) for id_, each in deployed.server.partitions.items()}
    deployed.slice()
    deployed.server.interrupt = at("documents.settle", undo)
    assert isinstance(deployed.coordinate(), Process)
    assert deployed.run() is Status.COMPLETED
    assert_migrated_once(deployed.documents())
    assert deployed.state().pass_number == 1
