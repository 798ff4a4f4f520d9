"""Update pipelines in memory; what they do to every kind of document is compared with a real server elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from migronaut.core.ports import WriteRefusedError
from migronaut.memory import QueryUnsupportedError
from migronaut.memory.server.elements import by_name
from migronaut.memory.server.pipeline import compile_pipeline
from migronaut.versioning import document

DOCUMENT = {"_id": 1, "name": "Ada Lovelace", "n": Int64(1), "tags": [{"t": 1}, {"t": 2}, 3], "address": {"city": "X"}}


def _run(stages: Sequence[dict[str, Any]], before: dict[str, Any] | None = None) -> dict[str, Any]:
    return bson.decode(compile_pipeline(stages)(bson.encode(before or DOCUMENT)))


@pytest.mark.parametrize(
    ("stages", "after"),
    [
        ([{"$set": {"n": {"$add": ["$n", 1]}}}], {**DOCUMENT, "n": 2}),
        ([{"$set": {"address.zip": "1"}}], {**DOCUMENT, "address": {"city": "X", "zip": "1"}}),
        ([{"$set": {"tags.u": "$n"}}], {**DOCUMENT, "tags": [{"t": 1, "u": 1}, {"t": 2, "u": 1}, {"u": 1}]}),
        ([{"$unset": ["tags", "address.city"]}], {"_id": 1, "name": "Ada Lovelace", "n": 1, "address": {}}),
        (
            [{"$project": {"n": 1, "words": {"$split": ["$name", " "]}}}],
            {"_id": 1, "n": 1, "words": ["Ada", "Lovelace"]},
        ),
        ([{"$project": {"tags.t": 1}}], {"_id": 1, "tags": [{"t": 1}, {"t": 2}]}),
        ([{"$project": {"tags": 0, "name": 0, "_id": 0}}], {"_id": 1, "n": 1, "address": {"city": "X"}}),
        ([{"$replaceWith": {"city": "$address.city", "gone": "$gone"}}], {"_id": 1, "city": "X"}),
        ([{"$replaceRoot": {"newRoot": "$address"}}, {"$set": {"a": 1}}], {"_id": 1, "city": "X", "a": 1}),
        ([{"$replaceWith": {"t": "$tags.t"}}], {"_id": 1, "t": [1, 2]}),
        ([{"$replaceWith": {"x": {"$ifNull": ["$no", "$no"]}, "y": ["$no"]}}], {"_id": 1, "y": [None]}),
    ],
)
def test_stages_make_the_document_afterwards(stages: list[dict[str, Any]], after: dict[str, Any]) -> None:
    found = _run(stages)
    assert (found, list(found)) == (after, list(after))


def test_fields_that_no_stage_touches_keep_their_bytes() -> None:
    broken = b"\x02text\x00\x02\x00\x00\x00\xff\x00"
    own, old = bson.encode({"_id": 1})[4:-1], bson.encode({"old": Decimal128("1.50")})[4:-1]
    pair = bson.encode({"pair": {"a": Int64(1), "b": 1}})[4:-1]
    after = compile_pipeline([{"$set": {"old": 1, "new": "$text"}}])(document(own, broken, old, pair))
    assert list(by_name(after)) == [b"_id", b"text", b"old", b"pair", b"new"]
    assert by_name(after)[b"text"] == broken
    assert by_name(after)[b"pair"] == pair
    assert by_name(after)[b"new"] == broken.replace(b"text", b"new")


def test_a_field_that_is_set_again_returns_to_its_old_place() -> None:
    assert list(_run([{"$unset": "name"}, {"$set": {"z": 1}}, {"$set": {"name": 1}}])) == [*DOCUMENT, "z"]


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$set": {"_id": 2}}], 66),
        ([{"$replaceWith": {"_id": "other"}}], 66),
        ([{"$set": {"_id": ["$_id"]}}], 53),
        ([{"$replaceWith": "$name"}], 40228),
        ([{"$set": {"n": {"$add": ["$name", 1]}}}], 16554),
        ([{"$set": {"n": {"$divide": ["$n", 0]}}}], 2),
        ([{"$set": {"n": {"$toInt": "$name"}}}], 241),
    ],
)
def test_what_the_server_refuses_is_refused_with_its_code(stages: list[dict[str, Any]], code: int) -> None:
    apply = compile_pipeline(stages)
    with pytest.raises(WriteRefusedError) as refused:
        apply(bson.encode(DOCUMENT))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("stage", "what"),
    [
        ({"$match": {}}, "the stage $match"),
        ({"$set": {"a": 1}, "$unset": "b"}, "one field"),
        ({"$set": 5}, "$set"),
        ({"$set": {"a": 1, "a.b": 2}}, "overlap"),
        ({"$set": {"a.b": 1, "a": 2}}, "overlap"),
        ({"$set": {"a": {}}}, "empty document"),
        ({"$set": {"a": {"b.c": 1}}}, "with paths"),
        ({"$set": {"a": {"b": 1, "$add": [1]}}}, "among other fields"),
        ({"$set": {"$a": 1}}, "starts with $"),
        ({"$set": {"a..b": 1}}, "empty name"),
        ({"$unset": []}, "$unset"),
        ({"$unset": ["a", "a.b"]}, "overlap"),
        ({"$unset": ["a.b", "a"]}, "overlap"),
        ({"$project": {}}, "$project"),
        ({"$project": {"a": 1, "b": 0}}, "$project"),
        ({"$project": {"a": 0, "b": "$a"}}, "$project"),
        ({"$project": {"_id": 0, "_id.x": 1}}, "overlap"),
        ({"$replaceRoot": {"newRoot": "$a", "x": 1}}, "newRoot"),
        ({"$set": {"a": "$$NOW"}}, "the variable $$NOW"),
        ({"$set": {"a": "$$other"}}, "the variable $$other"),
        ({"$set": {"a": "$"}}, "empty name"),
        ({"$set": {"a": {"$regexMatch": {"input": "$a", "regex": "x"}}}}, "the operator $regexMatch"),
        ({"$set": {"a": {"$subtract": [1]}}}, "$subtract with 1 arguments"),
        ({"$set": {"a": {"$ifNull": [1]}}}, "$ifNull with 1 arguments"),
        ({"$set": {"a": {"$cond": [1, 2]}}}, "$cond with 2 arguments"),
        ({"$set": {"a": {"$cond": {"if": 1, "then": 2}}}}, "$cond"),
        ({"$set": {"a": {"$switch": {"branches": []}}}}, "$switch"),
        ({"$set": {"a": {"$map": {"input": [], "as": "X", "in": 1}}}}, "small letter"),
        ({"$set": {"a": {"$filter": {"input": [], "cond": 1, "limit": 1}}}}, "$filter"),
        ({"$set": {"a": {"$let": {"vars": {"x": 1, "y": "$$x"}, "in": 1}}}}, "the variable $$x"),
        ({"$replaceWith": {"a.b": 1}}, "path as a name"),
    ],
)
def test_what_is_not_supported_is_named_before_any_document_is_seen(stage: dict[str, Any], what: str) -> None:
    with pytest.raises(QueryUnsupportedError, match="real MongoDB") as refused:
        compile_pipeline([stage])
    assert what in str(refused.value)


def test_a_pipeline_without_stages_is_refused() -> None:
    with pytest.raises(QueryUnsupportedError, match="without stages"):
        compile_pipeline([])


def test_arithmetic_with_decimals_is_refused_rather_than_guessed() -> None:
    apply = compile_pipeline([{"$set": {"n": {"$add": ["$n", 1]}}}])
    with pytest.raises(QueryUnsupportedError, match="decimals"):
        apply(bson.encode({"_id": 1, "n": Decimal128("1")}))
