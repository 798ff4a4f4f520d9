"""Rate, percentage and the time left: never a false promise."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migronaut.core.progress import UNATTENDED, Progress, Rate, progress_of
from migronaut.core.state import Status

RUNNING = Status.RUNNING


def _running(**facts: Any) -> Progress:
    usual: dict[str, Any] = {
        "status": RUNNING,
        "done": 500,
        "left": 500,
        "rate": 10.0,
        "average": 10.0,
        "elapsed": 50.0,
    }
    return progress_of(**usual | facts)


@pytest.mark.parametrize(
    ("status", "done", "left", "percent"),
    [
        (RUNNING, 0, 0, 0),
        (RUNNING, 0, None, 0),
        (RUNNING, 7, None, 0),
        (RUNNING, 0, 100, 0),
        (RUNNING, 25, 175, 12.5),
        (RUNNING, 100, 0, 99),
        (RUNNING, 150, -50, 99),
        (RUNNING, 999_999, 1, 99),
        (Status.PAUSED, 50, 50, 50),
        (Status.FAILED, 100, 0, 99),
        (Status.COMPLETED, 0, 0, 100),
        (Status.COMPLETED, 90, 10, 100),
        (Status.COMPLETED, 0, None, 100),
    ],
)
def test_percent_reaches_100_only_when_completed(status: Status, done: int, left: int | None, percent: float) -> None:
    assert progress_of(status=status, done=done, left=left).percent == percent


@pytest.mark.parametrize(("left", "estimate"), [(None, None), (0, 26), (-3, 26), (10, 36)])
def test_the_estimate_is_what_is_done_and_what_is_left(left: int | None, estimate: int | None) -> None:
    assert progress_of(status=RUNNING, done=26, left=left).estimate == estimate


@pytest.mark.parametrize("left", [None, 0, -3, 26])
def test_completed_means_what_was_done(left: int | None) -> None:
    """Documents may have been deleted since the plan, and a last pass is small."""
    progress = progress_of(status=Status.COMPLETED, done=59_979, left=left, at_least=True)
    assert (progress.done, progress.estimate, progress.at_least) == (59_979, 59_979, False)


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.BLOCKED, "waits for another"),
        (Status.PENDING, "not started"),
        (Status.PAUSED, "paused"),
        (Status.FAILED, "failed"),
        (Status.CANCELLED, "cancelled"),
    ],
)
def test_what_does_not_run_has_no_time_left_and_says_why(status: Status, word: str) -> None:
    progress = _running(status=status)
    assert (progress.rate, progress.eta_low, progress.eta_high) == (None, None, None)
    assert progress.note is not None
    assert progress.note.startswith(word)


def test_nobody_at_work_means_no_pace_and_no_time_left() -> None:
    progress = _running(rate=50.0, attended=False)
    assert (progress.rate, progress.eta_low, progress.eta_high, progress.note) == (None, None, None, UNATTENDED)


def test_completed_has_nothing_to_explain() -> None:
    progress = _running(status=Status.COMPLETED, done=1000)
    assert (progress.rate, progress.eta_low, progress.eta_high, progress.note) == (None, None, None, None)


def test_time_left_spans_the_pace_of_late_and_of_the_whole_run() -> None:
    progress = _running(done=500, left=500, elapsed=100.0, rate=10.0, average=5.0)
    assert progress.eta_low == pytest.approx(50 * 0.9)
    assert progress.eta_high == pytest.approx(100 * 1.1)
    assert progress.note is None


def test_without_a_late_rate_the_average_stands_in() -> None:
    progress = _running(rate=None)
    assert progress.rate == 10
    assert progress.eta_low == pytest.approx(45)
    assert progress.eta_high == pytest.approx(55)


def test_a_lower_bound_gives_no_upper_time() -> None:
    progress = _running(at_least=True)
    assert progress.at_least
    assert progress.eta_low == pytest.approx(45)
    assert progress.eta_high is None
    assert progress.note == "there may be more documents than estimated"


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        ({"elapsed": 9.9}, "too early to tell"),
        ({"elapsed": 0.0, "rate": None, "average": None}, "too early to tell"),
        ({"done": 5}, "too early to tell"),
        ({"done": 0, "rate": None, "average": 0.0}, "no document was done lately"),
        ({"rate": 0.0}, "no document was done lately"),
        ({"left": None}, "planning"),
        ({"left": 0}, "last checks"),
        ({"left": -1}, "there are more documents than estimated"),
    ],
)
def test_no_time_left_is_told_where_it_would_be_a_guess(facts: dict[str, Any], note: str) -> None:
    progress = _running(**facts)
    assert (progress.eta_low, progress.eta_high, progress.note) == (None, None, note)


@pytest.mark.parametrize("facts", [{"elapsed": 10.0}, {"done": 6}])
def test_from_1_percent_and_10_seconds_on_a_time_is_told(facts: dict[str, Any]) -> None:
    assert _running(**facts).eta_low is not None


def test_one_sample_is_no_rate() -> None:
    assert Rate(done=5, at=100.0).per_second is None


def test_the_first_interval_is_taken_as_it_is() -> None:
    assert Rate(done=0, at=0.0).observe(50, 0.1).per_second == pytest.approx(500)


def test_a_change_shows_to_63_percent_after_the_time_constant() -> None:
    steady = Rate(done=0, at=0.0, tau=10.0).observe(100_000, 1000.0)
    assert steady.per_second == pytest.approx(100)
    assert steady.observe(100_000, 1010.0).per_second == pytest.approx(100 * exp(-1))


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=20))
def test_how_often_one_looks_makes_no_difference(steps: list[float]) -> None:
    start = Rate(done=0, at=0.0).observe(3000, 10.0)
    often, now = start, 10.0
    for step in steps:
        now += step
        often = often.observe(3000, now)
    assert often.per_second == pytest.approx(start.observe(3000, now).per_second, rel=1e-6, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.01, 50), st.integers(0, 10_000)), min_size=1, max_size=20))
def test_the_rate_stays_between_the_slowest_and_the_fastest_interval(steps: list[tuple[float, int]]) -> None:
    rate, speeds = Rate(done=0, at=0.0), []
    for passed, documents in steps:
        before = rate
        rate = rate.observe(rate.done + documents, rate.at + passed)
        speeds.append(documents / (rate.at - before.at))
    assert rate.per_second is not None
    assert min(speeds) * 0.999 <= rate.per_second <= max(speeds) * 1.001


def test_a_sample_at_the_same_moment_loses_no_documents() -> None:
    rate = Rate(done=0, at=0.0).observe(100, 0.0).observe(100, 1.0)
    assert rate.per_second == pytest.approx(100)


def test_a_count_that_starts_again_keeps_the_rate_and_never_goes_negative() -> None:
    rate = Rate(done=0, at=0.0).observe(1000, 10.0)
    again = rate.observe(0, 11.0)
    assert again.per_second == rate.per_second
    assert again.observe(100, 12.0).per_second == pytest.approx(100)
