"""Which stages a migration's pipeline may have, and what they may not touch."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128

from migronaut import Background
from migronaut.errors import InvalidMigrationError
from migronaut.spec import Pipeline

SET = {"$set": {"b": "$a"}}


def same(doc: dict[str, Any]) -> dict[str, Any]:
    return doc


def build(**settings: Any) -> Background:
    return Background(**{"collection": "c", "from_version": 1, "to_version": 2, "version_field": "v"} | settings)


_OR_NULL = {field: {"$ifNull": [f"${field}", None]} for field in ("rev", "v")}


def stages(*given: Any, **settings: Any) -> list[Any]:
    way = build(pipeline=list(given), **settings).way("forward")
    assert isinstance(way, Pipeline)
    return list(way.stages)


REFUSED: list[tuple[Any, str]] = [
    ([], "must be a list of stages"),
    ({"$set": {"a": 1}}, "must be a list of stages"),
    ([{}], "exactly one name"),
    ([{"$set": {"a": 1}, "$unset": "b"}], "exactly one name"),
    (["$set"], "exactly one name"),
    ([SET, {"$match": {}}], "$match at position 2"),
    ([{"$merge": "x"}], "$merge"),
    ([{"$lookup": {}}], "$lookup"),
    ([{"$set": {}}], "without fields"),
    ([{"$set": "a"}], "without fields"),
    ([{"$unset": []}], "without field names"),
    ([{"$unset": [1]}], "without field names"),
    ([{"$replaceRoot": {"a": 1}}], "without newRoot"),
    ([{"$set": {"_id": 1}}], "touches _id"),
    ([{"$set": {"_id.a": 1}}], "touches _id"),
    ([{"$addFields": {"v": 9}}], "touches v"),
    ([{"$set": {"v.x": 9}}], "touches v"),
    ([{"$set": {"rev": 9}}], "touches rev"),
    ([{"$unset": "rev"}], "touches rev"),
    ([{"$unset": ["a", "_id"]}], "touches _id"),
    ([{"$project": {"_id": 0, "a": 1}}], "touches _id"),
    ([{"$project": {"v": 0}}], "touches v"),
    ([{"$project": {"a": 1, "v": "$a"}}], "touches v"),
    ([{"$replaceWith": {"_id": "$a"}}], "touches _id"),
    ([{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"v": 3}]}}], "touches v"),
    ([{"$replaceRoot": {"newRoot": {"rev": 3}}}], "touches rev"),
    ([{"$set": {"a": {"$function": {"body": "f"}}}}], "JavaScript"),
    ([{"$set": {"a": {1, 2}}}], "BSON cannot store"),
]


@pytest.mark.parametrize("setting", ["pipeline", "revert_pipeline"])
@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_what_an_update_cannot_run_or_must_not_touch_is_refused(setting: str, given: Any, words: str) -> None:
    with pytest.raises(InvalidMigrationError) as caught:
        build(**{"pipeline": [SET], "revision_field": "rev", setting: given})
    ((found,)) = caught.value.context["problems"]
    assert found["setting"] == setting
    assert words in found["problem"]


def test_stages_that_change_fields_are_taken_as_they_are() -> None:
    given = [
        SET,
        {"$project": {"n": {"m": 0}}},
        {"$project": {"o": Decimal128("0")}},
        {"$addFields": {"c.d": {"$add": ["$v", 1]}}},
        {"$unset": ["a"]},
        {"$project": {"x": 0}},
    ]
    assert stages(*given) == given


def test_a_projection_that_names_what_stays_keeps_our_fields() -> None:
    assert stages({"$project": {"a": 1}}, revision_field="rev") == [{"$project": {"a": 1, "rev": 1, "v": 1}}]


def test_a_new_root_gets_our_fields() -> None:
    for stage in ({"$replaceWith": {"a": "$b"}}, {"$replaceRoot": {"newRoot": {"a": "$b"}}}):
        (made,) = stages(stage, revision_field="rev")
        let = made["$replaceWith"]["$let"]
        assert let["vars"] == {"root": {"a": "$b"}}
        assert {"$mergeObjects": ["$$root", {"_id": "$_id", "rev": _OR_NULL["rev"], "v": _OR_NULL["v"]}]} in let["in"][
            "$cond"
        ]


def test_the_file_cannot_change_the_stages_later() -> None:
    given: dict[str, Any] = {"$set": {"a": [1]}}
    background = build(pipeline=[given])
    given["$set"]["a"].append(2)
    way = background.way("forward")
    assert isinstance(way, Pipeline)
    assert way.stages == ({"$set": {"a": [1]}},)


def test_a_pipeline_takes_larger_batches() -> None:
    assert build(pipeline=[SET]).spec.batch_size == 5000
    assert build(pipeline=[SET], batch_size=100_000).spec.batch_size == 100_000
    assert build(migrate=same).spec.batch_size == 500
    with pytest.raises(InvalidMigrationError, match="from 1 to 10000"):
        build(pipeline=[SET], revert=same, batch_size=100_000)


def test_ways_are_told_in_the_spec() -> None:
    spec = build(migrate=same, revert_pipeline=[SET]).spec
    assert (spec.pipeline, spec.revert_pipeline, spec.reversible) == (False, True, True)
    assert build(pipeline=[SET]).spec.pipeline


@pytest.mark.parametrize("setting", [{"guard": "revision", "revision_field": "rev"}, {"max_conflict_retries": 2}])
def test_what_a_pipeline_would_ignore_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidMigrationError, match=r"not used by a pipeline|a pipeline does not use"):
        build(pipeline=[SET], **setting)
    build(pipeline=[SET], revert=same, **setting)


def test_two_ways_forward_are_one_too_many() -> None:
    with pytest.raises(InvalidMigrationError, match="given as well as migrate"):
        build(migrate=same, pipeline=[SET])
