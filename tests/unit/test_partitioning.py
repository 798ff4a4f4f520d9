"""Cutting a pass: every id in exactly one partition, whatever the sample looks like."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migronaut.core.partitioning import (
    BRACKETS,
    Cut,
    cut,
    open_cuts,
    parts_for,
    sample_size,
    target_parts,
)
from migronaut.core.state import Partitioning, Scope, Spec

NAMES = [bracket.name for bracket in BRACKETS]
BESIDE: dict[str, tuple[Any, ...]] = {"number": (-99, 99, 0.25), "string": ("", "~", "ab")}
"""Ids that no sample has seen."""
_ids: dict[Any, st.SearchStrategy[list[Any]]] = {
    "number": st.lists(st.integers(-20, 20) | st.floats(-20, 20), max_size=40).map(sorted),
    "string": st.lists(st.text("abc", max_size=3), max_size=40).map(sorted),
    "bool": st.lists(st.booleans(), max_size=10).map(sorted),
    "null": st.lists(st.none(), max_size=2),
}
_samples = st.fixed_dictionaries({}, optional=_ids)


def _holds(scope: Scope, bracket: str, value: Any) -> bool:
    return (
        scope.bracket == bracket
        and (not scope.bounded_below or scope.lower < value)
        and (not scope.bounded_above or value <= scope.upper)
    )


def _ranges(cuts: Sequence[Cut], bracket: str) -> list[tuple[Any, Any]]:
    """(lower, upper) of one bracket in order; ``None`` is an open end."""
    scopes = [one.scope for one in cuts if one.scope.bracket == bracket]
    scopes.sort(key=lambda scope: (scope.bounded_below, scope.lower if scope.bounded_below else 0))
    return [
        (scope.lower if scope.bounded_below else None, scope.upper if scope.bounded_above else None) for scope in scopes
    ]


@given(_samples, st.sets(st.sampled_from(NAMES)), st.integers(1, 30), st.integers(0, 10_000))
def test_every_id_falls_into_exactly_one_cut(samples: Any, present: set[str], parts: int, count: int) -> None:
    cuts = cut(samples, sorted(present), parts, count)
    for bracket, ids in samples.items():
        beside = BESIDE.get(bracket, ())
        for value in [*ids, *(beside if ids else ())]:
            assert sum(_holds(one.scope, bracket, value) for one in cuts) == 1


@given(_samples, st.sets(st.sampled_from(NAMES)), st.integers(1, 30), st.integers(0, 10_000))
def test_each_bracket_is_a_chain_of_ranges_open_at_both_ends(
    samples: Any, present: set[str], parts: int, count: int
) -> None:
    cuts = cut(samples, sorted(present), parts, count)
    brackets = {one.scope.bracket for one in cuts}
    assert brackets == present | {bracket for bracket, ids in samples.items() if ids}
    for bracket in brackets:
        ranges = _ranges(cuts, bracket)
        assert ranges[0][0] is None
        assert ranges[-1][1] is None
        for (_, upper), (lower, _) in pairwise(ranges):
            assert upper == lower
        assert all(lower < upper for lower, upper in ranges[1:-1])
    assert len(cuts) <= parts - 1 + len(brackets)


@given(_samples, st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 30), st.integers(0, 10_000))
def test_estimates_add_up_follow_the_sample_and_come_largest_first(
    samples: Any, present: set[str], parts: int, count: int
) -> None:
    cuts = cut(samples, sorted(present), parts, count)
    estimates = [one.estimate for one in cuts]
    assert sum(estimates) == count
    assert estimates == sorted(estimates, reverse=True)
    total = sum(map(len, samples.values()))
    for one in cuts if total else ():
        ids = samples.get(one.scope.bracket, [])
        below = bisect_right(ids, one.scope.lower) if one.scope.bounded_below else 0
        upto = bisect_right(ids, one.scope.upper) if one.scope.bounded_above else len(ids)
        assert abs(one.estimate - count * (upto - below) / total) <= 1


def test_boundaries_lie_at_equal_quantiles() -> None:
    cuts = cut({"number": list(range(100))}, ["number"], 4, 1000)
    assert _ranges(cuts, "number") == [(None, 24), (24, 49), (49, 74), (74, None)]
    assert [one.estimate for one in cuts] == [250] * 4


def test_quantiles_are_taken_over_all_brackets_together() -> None:
    samples: dict[str, list[Any]] = {"string": [f"{i:02}" for i in range(60)], "number": list(range(40))}
    cuts = cut(samples, ["number", "string"], 4, 1000)
    assert _ranges(cuts, "number") == [(None, 24), (24, None)]
    assert _ranges(cuts, "string") == [(None, "09"), ("09", "34"), ("34", None)]


def test_a_bracket_that_is_present_but_was_not_sampled_is_covered() -> None:
    cuts = cut({"number": [1, 2, 3, 4]}, ["number", "date"], 2, 100)
    assert cuts[-1] == Cut(scope=Scope(bracket="date"), estimate=0)


def test_a_bracket_that_was_sampled_but_appeared_after_the_look_is_covered() -> None:
    assert {one.scope.bracket for one in cut({"string": ["a"]}, [], 2, 1)} == {"string"}


def test_brackets_with_few_values_are_never_cut() -> None:
    samples: dict[str, list[Any]] = {"bool": [False] * 50 + [True] * 50, "object": [{"a": i} for i in range(100)]}
    assert [one.scope for one in cut(samples, ["bool", "object"], 16, 100)] == [
        Scope(bracket="object"),
        Scope(bracket="bool"),
    ]


@pytest.mark.parametrize("ids", [[7], [7, 7, 7, 7], [7, 7.0, 7], [nan, nan, nan]])
def test_one_distinct_id_gives_one_open_cut(ids: list[Any]) -> None:
    assert cut({"number": ids}, ["number"], 4, 9) == (Cut(scope=Scope(bracket="number"), estimate=9),)


def test_equal_boundaries_are_dropped_and_equal_ids_stay_together() -> None:
    cuts = cut({"number": [1, 5, 5, 5, 5, 5, 5, 9]}, ["number"], 8, 80)
    assert _ranges(cuts, "number") == [(None, 1), (1, 5), (5, None)]
    assert [(one.scope.upper, one.estimate) for one in cuts] == [(5, 60), (1, 10), (None, 10)]


def test_true_and_1_are_not_taken_for_one_id() -> None:
    # Not one bracket on a server; a cut that merged them would show that Python's equality was used.
    assert len(cut({"number": [True, 1]}, ["number"], 2, 2)) == 2


def test_without_documents_or_samples_each_present_bracket_is_open() -> None:
    assert cut({}, [], 4, 0) == ()
    assert cut({"number": []}, ["string", "number"], 4, 5) == open_cuts(["string", "number"], 5)
    assert open_cuts(["number"], 0) == (Cut(scope=Scope(bracket="number"), estimate=0),)


def test_open_cuts_share_the_count() -> None:
    cuts = open_cuts(["string", "null", "number"], 10)
    assert sorted(one.scope.bracket for one in cuts) == ["null", "number", "string"]
    assert [one.estimate for one in cuts] == [4, 3, 3]


def test_an_unknown_bracket_is_refused() -> None:
    with pytest.raises(ValueError, match="bracket"):
        open_cuts(["array"], 1)
    with pytest.raises(ValueError, match="bracket"):
        cut({"array": [1]}, [], 1, 1)


def test_brackets_are_in_the_order_of_bson() -> None:
    order = [
        "minKey",
        "undefined",
        "null",
        "number",
        "symbol",
        "string",
        "object",
        "binData",
        "objectId",
        "bool",
        "date",
        "timestamp",
        "dbPointer",
        "javascript",
        "javascriptWithScope",
    ]
    assert [*order, "maxKey"] == NAMES
    splittable = [bracket.name for bracket in BRACKETS if bracket.splittable]
    assert splittable == ["number", "string", "binData", "objectId", "date", "timestamp"]


def _spec(max_parallel: int = 4, **partitions: int) -> Spec:
    return Spec(collection="c", max_parallel=max_parallel, batch_size=500, partitions=Partitioning(**partitions))


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        (_spec(1), 1),
        (_spec(1, over_partition=64), 1),
        (_spec(4), 16),
        (_spec(64), 256),
        (_spec(64, max_partitions=10), 10),
        (_spec(2, over_partition=1), 2),
    ],
)
def test_target_parts(spec: Spec, target: int) -> None:
    assert target_parts(spec) == target


@pytest.mark.parametrize(
    ("count", "spec", "parts"),
    [
        (0, _spec(), 1),
        (1, _spec(), 1),
        (2000, _spec(), 1),
        (2001, _spec(), 2),
        (32_000, _spec(), 16),
        (10**9, _spec(), 16),
        (10**9, _spec(1), 1),
        (3, _spec(min_documents=1), 3),
    ],
)
def test_parts_for(count: int, spec: Spec, parts: int) -> None:
    assert parts_for(count, spec) == parts


@pytest.mark.parametrize(
    ("spec", "parts", "count", "collection", "large", "size"),
    [
        (_spec(), 4, 8_000, None, False, 400),
        (_spec(), 256, 10**6, 10**6, False, 10_000),
        (_spec(sample_size=50), 4, 8_000, None, False, 50),
        (_spec(), 4, 30, None, False, 30),
        (_spec(), 4, 0, 0, False, 1),
        (_spec(), 16, 32_000, 10**6, True, 1600),
        (_spec(), 16, 32_000, 32_000, True, 1280),
        (_spec(), 16, 32_000, None, True, 1280),
        (_spec(sample_size=100_000), 16, 32_000, 10**6, True, 40_000),
        (_spec(min_documents=1), 16, 16, 16, True, 1),
    ],
)
def test_sample_size(spec: Spec, parts: int, count: int, collection: int | None, large: bool, size: int) -> None:
    assert sample_size(spec, parts, count=count, collection_count=collection, large=large) == size
