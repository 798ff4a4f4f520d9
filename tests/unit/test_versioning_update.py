"""UpdateBuilder: the smallest update that makes the stored document into the result."""

from __future__ import annotations

from collections import UserDict
from copy import deepcopy
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve
from bson import Int64

from migronaut.core.state import Direction, Spec
from migronaut.versioning import DocumentInvalidError, UpdateBuilder, encode_statement

FORWARD, REVERT = Direction.FORWARD, Direction.REVERT
VERSIONED = Spec(collection="orders", from_version=1, to_version=2)
REVISED = evolve(VERSIONED, revision_field="rev")
PREDICATE = Spec(collection="orders", filter={"b": None}, revert_filter={"b": 1})
DOC: dict[str, Any] = {"_id": 1, "schema_version": 1, "a": 1, "n": {"x": 1, "y": 2.0}, "t": datetime(2026, 1, 2)}


def _build(original: dict[str, Any], result: object, spec: Spec = VERSIONED, direction: Direction = FORWARD) -> Any:
    return UpdateBuilder.of(spec, direction).build(original, result)


def _refused(original: dict[str, Any], result: object, spec: Spec = VERSIONED) -> DocumentInvalidError:
    with pytest.raises(DocumentInvalidError) as caught:
        encode_statement({"_id": 1}, _build(original, result, spec))
    return caught.value


def test_only_changed_and_new_fields_are_set_and_lost_ones_unset() -> None:
    result = deepcopy(DOC) | {"n": {"x": 1, "y": 3.0}, "new": "z"}
    del result["a"]
    assert _build(DOC, result) == {
        "$set": {"n": {"x": 1, "y": 3.0}, "new": "z", "schema_version": 2},
        "$unset": {"a": ""},
    }


def test_a_copy_left_alone_sets_the_version_and_nothing_else() -> None:
    assert _build(DOC, deepcopy(DOC)) == {"$set": {"schema_version": 2}}


@pytest.mark.parametrize(
    "changed",
    [{"a": 1.0}, {"a": Int64(1)}, {"a": True}, {"n": {"y": 2.0, "x": 1}}, {"n": {"x": 1, "y": 2}}],
)
def test_a_change_of_bson_type_or_key_order_is_a_change(changed: dict[str, Any]) -> None:
    assert _build(DOC, DOC | changed)["$set"] == changed | {"schema_version": 2}


def test_one_instant_with_and_without_a_time_zone_is_no_change() -> None:
    assert _build(DOC, DOC | {"t": DOC["t"].replace(tzinfo=UTC)}) == {"$set": {"schema_version": 2}}


def test_the_order_of_top_level_fields_is_no_change() -> None:
    assert _build(DOC, dict(reversed(DOC.items()))) == {"$set": {"schema_version": 2}}


@pytest.mark.parametrize("mapping", [UserDict, MappingProxyType])
def test_any_mapping_is_a_result(mapping: Any) -> None:
    assert _build(DOC, mapping(DOC | {"a": 2})) == {"$set": {"a": 2, "schema_version": 2}}


@pytest.mark.parametrize("own", [{"schema_version": 7, "rev": 9}, {"schema_version": None, "rev": {1}}])
def test_version_and_revision_of_the_result_are_ignored(own: dict[str, Any]) -> None:
    expected = {"$set": {"schema_version": 2}, "$inc": {"rev": 1}}
    original = DOC | {"rev": 3}
    assert _build(original, original | own, REVISED) == expected
    assert _build(original, {key: original[key] for key in original if key not in own}, REVISED) == expected


def test_reverting_to_version_0_removes_the_field() -> None:
    spec = evolve(VERSIONED, from_version=0)
    assert _build(DOC, deepcopy(DOC), spec, REVERT) == {"$unset": {"schema_version": ""}}
    without = {key: value for key, value in DOC.items() if key != "schema_version"}
    assert _build(DOC, without, spec, REVERT) == {"$unset": {"schema_version": ""}}


def test_reverting_sets_the_earlier_version() -> None:
    assert _build(DOC | {"schema_version": 2}, DOC, VERSIONED, REVERT) == {"$set": {"schema_version": 1}}


@pytest.mark.parametrize("stored", [{}, {"rev": 0}, {"rev": 3}, {"rev": Int64(3)}, {"rev": 3.0}])
def test_the_revision_is_counted_up_where_it_is_missing_or_a_number(stored: dict[str, Any]) -> None:
    original = DOC | stored
    assert _build(original, original, REVISED) == {"$set": {"schema_version": 2}, "$inc": {"rev": 1}}


def test_a_null_revision_is_set_because_the_server_cannot_increment_it() -> None:
    original = DOC | {"rev": None}
    assert _build(original, original, REVISED) == {"$set": {"schema_version": 2, "rev": 1}}


@pytest.mark.parametrize("field", ["schema_version", "rev"])
def test_a_stored_version_or_revision_that_is_no_number_is_refused(field: str) -> None:
    original = DOC | {field: [1]}
    assert _refused(original, original, REVISED).kind == "invalid-version"


def test_by_predicate_no_version_is_set_and_the_field_is_an_ordinary_one() -> None:
    assert _build(DOC, DOC | {"b": 1}, PREDICATE) == {"$set": {"b": 1}}
    assert _build(DOC, DOC | {"schema_version": 5}, PREDICATE) == {"$set": {"schema_version": 5}}


@pytest.mark.parametrize("spec", [PREDICATE, evolve(PREDICATE, revision_field="rev")])
def test_by_predicate_a_result_that_changes_nothing_is_refused(spec: Spec) -> None:
    assert _refused(DOC, deepcopy(DOC) | ({"rev": 8} if spec.revision_field else {}), spec).kind == "unchanged"


@pytest.mark.parametrize("result", [None, [], "text", 5, [("_id", 1)]])
def test_a_result_that_is_no_document_is_refused(result: object) -> None:
    assert _refused(DOC, result).kind == "not-a-mapping"


@pytest.mark.parametrize("id_", [{}, {"_id": 2}, {"_id": 1.0}, {"_id": True}, {"_id": None}])
def test_another_or_a_missing_id_is_refused(id_: dict[str, Any]) -> None:
    assert _refused(DOC, {key: DOC[key] for key in DOC if key != "_id"} | id_).kind == "id-changed"


@pytest.mark.parametrize("key", ["", "$a", "$", "a.b", ".", "a\0b", 5, b"a", None])
def test_an_unusable_key_is_refused_when_added_changed_or_removed(key: Any) -> None:
    assert _refused(DOC, DOC | {key: 1}).kind == "bad-key"
    assert _refused(DOC | {key: 2}, DOC | {key: 1}).kind == "bad-key"
    assert _refused(DOC | {key: 2}, DOC).kind == "bad-key"


def test_odd_keys_that_were_stored_and_left_alone_are_no_problem() -> None:
    odd = DOC | {"": 1, "$a": {"b": 2}, "a.b": [3]}
    assert _build(odd, deepcopy(odd)) == {"$set": {"schema_version": 2}}


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    return circle


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), 2**64, -(2**64), "\ud800", {"k": {1: 2}}, {"k": {"a\0": 1}}, [2**64], _circle()],
    ids=["set", "object", "big", "small", "surrogate", "int-key", "nul-key", "nested", "circle"],
)
@pytest.mark.parametrize("key", ["new", "a", "n"])
def test_a_value_that_bson_cannot_store_is_refused(key: str, value: object) -> None:
    assert _refused(DOC, DOC | {key: value}).kind == "not-encodable"


def test_no_message_quotes_the_document() -> None:
    secret = "sesame"
    for result in (
        None,
        {"_id": secret},
        DOC | {f"${secret}": 1},
        DOC | {"a": {secret}},
        DOC | {"a": secret + "\ud800"},
    ):
        error = _refused(DOC, result)
        assert secret not in str(error)
        assert error.__suppress_context__ or error.__context__ is None


def test_original_and_result_are_left_as_they_were() -> None:
    original, result = deepcopy(DOC) | {"rev": 1}, deepcopy(DOC) | {"rev": 5, "a": 2}
    before = deepcopy((original, result))
    _build(original, result, REVISED)
    assert (original, result) == before
