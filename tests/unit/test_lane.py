"""What follows a batch and what follows a slice, as tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import evolve

from migronaut.core.lane import (
    MAX_LANE_RETRIES,
    Again,
    End,
    LaneFacts,
    Outcome,
    SliceResult,
    after_slice,
    backoff,
    before_batch,
)
from migronaut.core.state import BackgroundState, Phase, Plan, Spec, Status

AT = datetime(2026, 1, 1)
STATE = BackgroundState(
    name="m.py",
    registration="r",
    status=Status.RUNNING,
    checksum="c",
    spec=Spec(collection="orders", from_version=1, to_version=2),
    registered_at=AT,
    updated_at=AT,
    phase=Phase.PROCESS,
    generation=3,
    plan=Plan(token="t", method="single", estimate=1, match="hash", made_at=AT),
)
FACTS = LaneFacts(stopping=False, lease_lost=False, batches=5, out_of_time=False, state=STATE, generation=3, plan="t")


def _state(**changes: Any) -> BackgroundState:
    return evolve(STATE, **changes)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, None),
        ({"batches": 0}, None),
        ({"out_of_time": True}, Outcome.YIELDED),
        ({"out_of_time": True, "batches": 0}, None),
        ({"stopping": True}, Outcome.STOPPED),
        ({"stopping": True, "batches": 0}, Outcome.STOPPED),
        ({"lease_lost": True}, Outcome.LOST),
        ({"lease_lost": True, "stopping": True, "out_of_time": True}, Outcome.LOST),
        ({"state": None}, Outcome.CANCELLED),
        ({"state": _state(status=Status.CANCELLED)}, Outcome.CANCELLED),
        ({"state": _state(status=Status.PAUSED)}, Outcome.PAUSED),
        ({"state": _state(status=Status.FAILED)}, Outcome.FAILED),
        ({"state": _state(status=Status.COMPLETED)}, Outcome.COMPLETED),
        ({"state": _state(status=Status.PAUSED), "batches": 0}, Outcome.PAUSED),
        ({"state": _state(status=Status.PENDING)}, Outcome.STALE),
        ({"state": _state(status=Status.BLOCKED)}, Outcome.STALE),
        ({"state": _state(generation=4)}, Outcome.STALE),
        ({"state": _state(phase=Phase.REPLAN)}, Outcome.STALE),
        ({"state": _state(plan=None)}, Outcome.STALE),
        ({"plan": "another"}, Outcome.STALE),
    ],
)
def test_the_facts_between_two_batches_decide_whether_a_lane_goes_on(
    changes: dict[str, Any], outcome: Outcome | None
) -> None:
    assert before_batch(evolve(FACTS, **changes)) is outcome


def _after(outcome: Outcome, *, failures: int = 0, stopping: bool = False, retry_after: float = 0.0) -> End | Again:
    result = SliceResult(outcome=outcome, retry_after=retry_after)
    return after_slice(result, failures=failures, stopping=stopping)


GOES_ON = [Outcome.YIELDED, Outcome.STOPPED, Outcome.LOST]
COMES_BACK = [Outcome.BUSY, Outcome.WAITING]
ENDS = [outcome for outcome in Outcome if outcome not in {*GOES_ON, *COMES_BACK, Outcome.RAISED}]


@pytest.mark.parametrize("outcome", GOES_ON)
@pytest.mark.parametrize(("stopping", "delay"), [(False, 0.0), (True, 2.0)])
def test_an_unfinished_slice_goes_on_but_not_at_once_on_a_stopping_worker(
    outcome: Outcome, stopping: bool, delay: float
) -> None:
    assert _after(outcome, failures=3, stopping=stopping) == Again(delay=delay, failures=0, result=str(outcome))


@pytest.mark.parametrize("outcome", COMES_BACK)
@pytest.mark.parametrize(("retry_after", "delay"), [(30.0, 30.0), (1e9, 300.0)])
def test_a_lane_without_work_for_now_comes_back_and_keeps_its_failures(
    outcome: Outcome, retry_after: float, delay: float
) -> None:
    assert _after(outcome, failures=3, retry_after=retry_after) == Again(delay=delay, failures=3, result=str(outcome))


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize("stopping", [False, True])
def test_every_other_outcome_ends_the_lane(outcome: Outcome, stopping: bool) -> None:
    assert _after(outcome, stopping=stopping) == End(str(outcome))


def test_a_raised_slice_is_tried_again_ever_later_and_given_up_in_the_end() -> None:
    delays = []
    for failures in range(MAX_LANE_RETRIES):
        again = _after(Outcome.RAISED, failures=failures)
        assert isinstance(again, Again)
        assert again.failures == failures + 1
        delays.append(again.delay)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128]
    assert _after(Outcome.RAISED, failures=MAX_LANE_RETRIES) == End("gave-up")


@pytest.mark.parametrize(("failures", "delay"), [(1, 1), (2, 2), (9, 256), (10, 300), (10**9, 300)])
def test_back_off_doubles_up_to_five_minutes(failures: int, delay: float) -> None:
    assert backoff(failures) == delay
