"""Which migrations come first: by what a file requires, and by the versions of one collection."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from migronaut.core.order import awaited, earlier, later_by_version, waiting_text
from migronaut.core.state import BackgroundState, Direction, Spec, Status

AT = datetime(2026, 1, 1)
ENDED = (Status.COMPLETED, Status.CANCELLED)
NOT_ENDED = tuple(status for status in Status if status not in ENDED)


def _state(name: str, low: int | None = None, high: int | None = None, **more: Any) -> BackgroundState:
    spec = {"collection": "orders", "from_version": low, "to_version": high}
    spec |= {key: more.pop(key) for key in ("collection", "version_field", "filter") if key in more}
    declared: dict[str, Any] = {"registration": "r", "status": Status.PENDING, "checksum": "c"} | more
    return BackgroundState(name=name, spec=Spec(**spec), registered_at=AT, updated_at=AT, **declared)


def _waits(state: BackgroundState, *others: BackgroundState) -> list[str]:
    """The names of those that hold ``state`` up."""
    states = {each.name: each for each in (*others, state)}
    return [each.name for each in awaited(earlier(state, states), states)]


def _text(state: BackgroundState, *others: BackgroundState) -> str:
    states = {each.name: each for each in (*others, state)}
    return waiting_text(awaited(earlier(state, states), states))


@pytest.mark.parametrize("status", NOT_ENDED)
def test_what_makes_the_version_comes_first_until_it_has_ended(status: Status) -> None:
    assert _waits(_state("2", 2, 3), _state("1", 1, 2, status=status)) == ["1"]


@pytest.mark.parametrize("status", ENDED)
def test_what_has_ended_holds_nobody_up(status: Status) -> None:
    assert _waits(_state("2", 2, 3), _state("1", 1, 2, status=status)) == []


@pytest.mark.parametrize(
    "other",
    [
        _state("1", 1, 2, collection="others"),
        _state("1", 1, 2, version_field="v"),
        _state("1", 1, 3),
        _state("1", 2, 3),
        _state("1", 3, 4),
        _state("1", filter={"a": 1}),
        _state("1", 1, 2, direction=Direction.REVERT),
    ],
)
def test_others_are_not_waited_for(other: BackgroundState) -> None:
    assert _waits(_state("2", 2, 3), other) == []


def test_by_predicate_there_is_no_order_by_version() -> None:
    assert _waits(_state("2", filter={"a": 1}), _state("1", 0, 1)) == []


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 2), (0, 2)])
def test_all_that_lies_before_comes_first_also_across_a_gap(low: int, high: int) -> None:
    assert _waits(_state("3", 3, 4), _state("1", low, high)) == ["1"]


def test_names_say_nothing_where_versions_do() -> None:
    first, second = _state("9", 1, 2), _state("1", 2, 3)
    assert _waits(second, first) == ["9"]
    assert _waits(first, second) == []


def test_the_way_back_goes_the_other_way_round() -> None:
    upper = _state("2", 2, 3, direction=Direction.REVERT)
    lower = _state("1", 1, 2, direction=Direction.REVERT)
    assert _waits(lower, upper) == ["2"]
    assert _waits(upper, lower) == []


def test_what_is_required_must_have_completed_forward() -> None:
    def waits(**of_first: Any) -> list[str]:
        return _waits(_state("2", filter={"a": 1}, requires=("1",)), _state("1", 1, 2, **of_first))

    assert waits(status=Status.COMPLETED) == []
    assert waits(status=Status.COMPLETED, direction=Direction.REVERT) == ["1"]
    for status in (*NOT_ENDED, Status.CANCELLED):
        assert waits(status=status) == ["1"]
    assert _waits(_state("2", 1, 2, requires=("1",))) == ["1"]


def test_a_file_that_says_otherwise_is_right() -> None:
    """The versions would have it the other way round: both would wait for ever."""
    late, early = _state("1", 2, 3), _state("2", 1, 2, requires=("1",))
    assert _waits(early, late) == ["1"]
    assert _waits(late, early) == []


def test_a_circle_over_several_files_does_not_hold_either() -> None:
    one = _state("1", 2, 3)
    two = _state("2", 7, 8, collection="others", requires=("1",))
    three = _state("3", 1, 2, requires=("2",))
    assert _waits(one, two, three) == []
    assert _waits(two, one, three) == ["1"]
    assert _waits(three, one, two) == ["2"]
    done = _state("2", 7, 8, collection="others", requires=("1",), status=Status.COMPLETED)
    assert _waits(one, done, three) == ["3"]


def test_two_orders_by_version_that_would_close_a_circle_both_do_not_hold() -> None:
    one = _state("1", 2, 3)
    two = _state("2", 1, 2, collection="others", requires=("1",))
    three = _state("3", 2, 3, collection="others")
    four = _state("4", 1, 2, requires=("3",))
    found = [_waits(each, one, two, three, four) for each in (one, two, three, four)]
    assert found == [[], ["1"], [], ["3"]]


def test_later_ones_are_those_that_wait() -> None:
    one, two, three = _state("1", 1, 2), _state("2", 2, 3, status=Status.COMPLETED), _state("3", 3, 4, requires=("1",))
    other = _state("4", 2, 3, collection="others")
    states = {each.name: each for each in (one, two, three, other)}
    assert [each.name for each in later_by_version(one, states)] == ["2", "3"]
    assert later_by_version(three, states) == ()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.PENDING, "1, which makes version 2"),
        (Status.RUNNING, "1, which makes version 2"),
        (Status.BLOCKED, "1, which makes version 2"),
        (Status.PAUSED, "1, which makes version 2 and is paused"),
        (Status.FAILED, "1, which failed: it broke"),
    ],
)
def test_it_says_what_it_waits_for_by_version(status: Status, text: str) -> None:
    assert _text(_state("2", 2, 3), _state("1", 1, 2, status=status, last_error="it broke.")) == f"waits for {text}"


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ({"status": Status.RUNNING}, "1, which is running"),
        ({"status": Status.PAUSED}, "1, which is paused"),
        ({"status": Status.CANCELLED}, "1, which was cancelled"),
        ({"status": Status.FAILED, "last_error": None}, "1, which failed: no reason was kept"),
        ({"status": Status.COMPLETED, "direction": Direction.REVERT}, "1, which was reverted"),
    ],
)
def test_it_says_what_it_requires(first: dict[str, Any], text: str) -> None:
    assert _text(_state("2", 2, 3, requires=("1",)), _state("1", 1, 2, **first)) == f"waits for {text}"


def test_a_missing_one_is_to_be_registered() -> None:
    assert _text(_state("2", 2, 3, requires=("1",))) == "waits for 1, which is not registered (`migronaut up` does it)"


@pytest.mark.parametrize("status", [Status.FAILED, Status.PAUSED, Status.CANCELLED])
def test_what_will_not_come_is_named_whatever_stands_between(status: Status) -> None:
    chain = [
        _state("1", 1, 2, status=Status.COMPLETED),
        _state("2", 1, 2, collection="b", requires=("1",), status=status, last_error="it broke"),
        _state("3", 1, 2, collection="c", requires=("2",), status=Status.BLOCKED),
        _state("4", 1, 2, collection="d", requires=("3",), status=Status.BLOCKED),
    ]
    last = _state("5", 1, 2, collection="e", requires=("4",), status=Status.BLOCKED)
    states = {each.name: each for each in (*chain, last)}
    (found,) = awaited(earlier(last, states), states)
    assert (found.name, found.status, found.stuck) == ("2", status, True)


def test_what_comes_by_itself_is_not_stuck() -> None:
    first, second = _state("1", 1, 2, status=Status.RUNNING), _state("2", 2, 3, status=Status.BLOCKED)
    last = _state("3", 3, 4)
    states = {each.name: each for each in (first, second, last)}
    assert [(each.name, each.stuck) for each in awaited(earlier(last, states), states)] == [("1", False), ("2", False)]


def test_of_many_some_are_named_the_stuck_ones_first() -> None:
    firsts = [_state(str(number), number, number + 1) for number in range(1, 6)]
    firsts.append(_state("7", 7, 8, status=Status.PAUSED))
    assert _text(_state("9", 9, 10), *firsts) == (
        "waits for 7, which makes version 8 and is paused, and 1, which makes version 2, "
        "and 2, which makes version 3, and 3 others"
    )
