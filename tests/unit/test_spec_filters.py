from __future__ import annotations

from typing import Any

import pytest

from migronaut.errors import InvalidMigrationError
from migronaut.spec import Background


def build(**changes: Any) -> Background:
    return Background(**{"collection": "c", "from_version": 0, "to_version": 1, "migrate": lambda doc: doc, **changes})


def nested(levels: int) -> dict[str, Any]:
    query: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        query = {"$and": [query]}
    return query


endless: dict[str, Any] = {}
endless["$and"] = [endless]

REFUSED: list[tuple[Any, str]] = [
    ({"v": 1}, "version field"),
    ({"v.sub": 1}, "version field"),
    ({"a": 1, "$or": [{"a": 1}, {"v": 1}]}, "version field"),
    ({"$and": ({"$nor": [{"v": {"$gt": 1}}]},)}, "version field"),
    ({"$expr": {"$gt": ["$v", 1]}}, "version field"),
    ({"$expr": "$v"}, "version field"),
    ({"$expr": {"$gt": ["$$ROOT.v", 1]}}, "version field"),
    ({"$expr": {"$gt": ["$$CURRENT.v.x", 1]}}, "version field"),
    ({"$expr": {"$gt": [{"$getField": "v"}, 1]}}, "version field"),
    ({"$expr": {"$gt": [{"$getField": {"field": {"$literal": "v"}, "input": "$$ROOT"}}, 1]}}, "version field"),
    ({"$or": [{"$expr": {"$and": [{"$ne": ["$v", "$a"]}]}}]}, "version field"),
    ({"$where": "true"}, "$where"),
    ({"$expr": {"$function": {}}}, "$function"),
    ({"a": {"$elemMatch": {"$or": [{"b": {"$not": {"$where": "x"}}}]}}}, "$where"),
    ({"$expr": {"$accumulator": {}}}, "$accumulator"),
    ({"at": {"$near": [1, 2]}}, "$near"),
    ({"$or": [{"a": {"$nearSphere": [1, 2]}}]}, "$nearSphere"),
    ({"$text": {"$search": "x"}}, "$text"),
    ({1: 2}, "text as its keys"),
    ({"a": [{2: 3}]}, "text as its keys"),
    (nested(100), "nested deeper"),
    (endless, "nested deeper"),
    ("a", "must be a mapping"),
]

ACCEPTED: list[dict[str, Any]] = [
    {"a": 1},
    {"vx": 1, "a.v": 1},
    {"a": {"v": 1}},
    {"a": {"$elemMatch": {"v": 1}}},
    {"$or": [{"a": 1}, {"b": "v"}, {"b": "$v"}]},
    {"$expr": {"$gt": ["$vx", "$a.v"]}},
    {"$expr": {"$eq": ["$a", {"$literal": "$v"}]}},
    {"$expr": {"$eq": [{"$getField": "a"}, "v"]}},
    {"$expr": {"$eq": ["$$ROOT.a", "$$NOW"]}},
    nested(40),
]


@pytest.mark.parametrize("setting", ["filter", "revert_filter"])
@pytest.mark.parametrize(("query", "words"), REFUSED)
def test_a_filter_that_names_the_version_or_runs_javascript_is_refused(setting: str, query: Any, words: str) -> None:
    with pytest.raises(InvalidMigrationError) as caught:
        build(version_field="v", revert=lambda doc: doc, **{setting: query})
    ((found,)) = caught.value.context["problems"]
    assert found["setting"] == setting
    assert words in found["problem"]


@pytest.mark.parametrize("query", ACCEPTED)
def test_other_filters_are_accepted_as_they_are(query: dict[str, Any]) -> None:
    spec = build(version_field="v", filter=query, revert=lambda doc: doc, revert_filter=query).spec
    assert spec.filter == spec.revert_filter == query


@pytest.mark.parametrize("value", [{1, 2}, object(), 2**64, "\ud800"])
def test_a_filter_that_bson_cannot_store_is_refused_without_quoting_it(value: object) -> None:
    with pytest.raises(InvalidMigrationError, match="BSON cannot store") as caught:
        build(filter={"a": value})
    assert repr(value) not in str(caught.value)


def test_the_default_version_field_is_looked_for() -> None:
    with pytest.raises(InvalidMigrationError, match="schema_version"):
        build(filter={"schema_version": 1})


def test_by_predicate_the_version_field_is_refused_too() -> None:
    with pytest.raises(InvalidMigrationError, match="from_version and to_version"):
        Background(collection="c", filter={"schema_version": None}, migrate=lambda doc: doc)


def test_a_filter_changed_later_by_the_file_does_not_change_the_spec() -> None:
    query: dict[str, Any] = {"a": {"$in": [1]}}
    spec = build(filter=query).spec
    query["a"]["$in"].append(2)
    assert spec.filter == {"a": {"$in": [1]}}
