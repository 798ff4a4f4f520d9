"""The evaluator of update pipelines leaves the bytes, or the error code, that MongoDB leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import HealthCheck, event, example, given, seed, settings
from hypothesis import strategies as st
from pymongo.database import Database
from pymongo.errors import OperationFailure

from migronaut.core.ports import WriteRefusedError
from migronaut.memory import QueryUnsupportedError
from migronaut.memory.server.pipeline import compile_pipeline
from migronaut.versioning import CODEC

Document = Mapping[str, Any]
Stages = Sequence[Document]

INT, LONG = 2**31 - 1, Int64(2**63 - 1)
LEAST, LEAST_LONG = -(2**31), Int64(-(2**63))
NAN, INF = float("nan"), float("inf")
ZERO = {"$divide": [1, 0]}
DOCUMENT: Document = {
    "_id": 1,
    "a": 5,
    "b": 2,
    "s": {"x": 1, "y": 2},
    "l": [1, {"x": 1, "y": 2}, [{"x": 3}], {}],
    "n": None,
    "t": "héLlo, wörld",
    "d": 0.1,
    "m": [3, 1.5, Int64(2), "x", None],
    "k": [{"k": "p", "v": 1}, {"k": "q", "v": None}],
    "e": [],
    "when": datetime(2026, 1, 2, 3, 4, 5, 6000),
    "id": ObjectId("0123456789abcdef01234567"),
    "yes": True,
}


class Server:
    """One document on a real server."""

    def __init__(self, db: Database[Any]) -> None:
        self._db = db
        self._raw = db.get_collection("d", codec_options=CODEC.with_options(document_class=RawBSONDocument))

    def update(self, document: Document, stages: Stages) -> bytes | int:
        """The bytes of the document after the update, or the code of the error."""
        self._db.d.delete_many({})
        self._db.get_collection("d", codec_options=CODEC).insert_one(dict(document))
        update = {"q": {}, "u": list(stages)}
        try:
            result = self._db.command("update", "d", updates=[update], codec_options=CODEC)
        except OperationFailure as error:
            return error.code or 0
        if "writeErrors" in result:
            return int(result["writeErrors"][0]["code"])
        stored = self._raw.find_one()
        assert stored is not None
        return bytes(stored.raw)


@pytest.fixture
def server(db: Database[Any]) -> Server:
    return Server(db)


def _in_memory(document: Document, stages: Stages) -> bytes | int:
    apply = compile_pipeline(stages)
    try:
        return apply(bson.encode(document, codec_options=CODEC))
    except WriteRefusedError as error:
        return error.code


def _differences(server: Server, cases: Sequence[Stages]) -> list[tuple[Any, Any, Any]]:
    """The pipelines that do one thing on the server and another in memory, with both results."""
    both = [(stages, server.update(DOCUMENT, stages), _in_memory(DOCUMENT, stages)) for stages in cases]
    return [(stages, _readable(real), _readable(memory)) for stages, real, memory in both if real != memory]


def _readable(result: bytes | int) -> Any:
    return bson.decode(result, codec_options=CODEC) if isinstance(result, bytes) else result


STAGES: list[Stages] = [
    # A field that is set keeps its place, also when it was removed before.
    [{"$set": {"b": "x", "new": 1, "a": 2}}],
    [{"$addFields": {"z": "$a", "y": "$z"}}],
    [{"$set": {}}],
    [{"$unset": "a"}, {"$set": {"a": 1}}],
    [{"$set": {"a": "$$REMOVE"}}, {"$set": {"c": 1}}, {"$set": {"a": 1}}],
    [{"$set": {"new": "$$REMOVE"}}, {"$set": {"c": 1}}, {"$set": {"new": 2}}],
    [{"$unset": ["new"]}, {"$set": {"c": 1}}, {"$set": {"new": 2}}],
    [{"$unset": "s.x"}, {"$set": {"copy": "$s"}}, {"$set": {"copy.x": 2, "s.x": 3}}],
    [{"$unset": "a"}, {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"z": 1}]}}, {"$set": {"a": 1}}],
    [{"$unset": "a"}, {"$replaceWith": "$$ROOT"}, {"$set": {"a": 1}}],
    [{"$set": {"z": {"$let": {"vars": {}, "in": {"x": "$no", "y": 1}}}}}, {"$set": {"z.x": 5}}],
    # Paths lead through documents and arrays.
    [{"$set": {"s.x": "$a", "a.x": 1, "new.x.y": 2, "l.x": 7, "new.z": 3}}],
    [{"$set": {"s.x": "$$REMOVE", "a.x": "$$REMOVE", "new.x": "$$REMOVE"}}],
    [{"$set": {"s": {"x": "$no", "z": 1}}}],
    [{"$set": {"s": {"$literal": {}}, "l": [{}]}}],
    [{"$set": {"new.b.c": 1, "new": {"b": {"d": 2}}}}],
    [{"$set": {"l.0": 1}}],
    [{"$unset": ["s.x", "s.y", "l.x", "a.x", "no.x"]}],
    [{"$set": {"z": "$l.x", "y": "$s.x", "x": "$a.x", "w": "$$ROOT.s", "v": "$$CURRENT.l.y", "u": "$l.0"}}],
    # The id comes first and stays.
    [{"$set": {"_id": 2}}],
    [{"$set": {"_id": 1.0}}],
    [{"$set": {"_id": {"x": 1}}}],
    [{"$set": {"_id": "$$REMOVE"}}],
    [{"$set": {"_id": {"$literal": [1]}}}],
    [{"$unset": "_id"}],
    [{"$unset": "_id"}, {"$set": {"z": {"$type": "$_id"}}}],
    [{"$unset": "_id"}, {"$set": {"_id": 1}}],
    [{"$replaceWith": {"x": 1, "_id": "$_id"}}],
    [{"$replaceWith": {"x": 1, "_id": 2}}],
    [{"$replaceWith": {"x": 1, "_id": None}}],
    [{"$replaceWith": {"_id": Regex("a")}}],
    # Replacements.
    [{"$replaceWith": "$s"}],
    [{"$replaceRoot": {"newRoot": {"z": "$s.x", "gone": "$no"}}}],
    [{"$replaceWith": "$a"}],
    [{"$replaceWith": "$no"}],
    [{"$replaceWith": {"$literal": {"$x": 1, "a.b": 2, "": 3}}}],
    # Projections.
    [{"$project": {"b": 1, "a": 1}}],
    [{"$project": {"a": "$b", "b": 1, "z": {"$add": ["$a", 1]}}}],
    [{"$project": {"_id": 0, "a": 1}}, {"$set": {"z": "$$ROOT"}}],
    [{"$project": {"_id": 0}}],
    [{"$project": {"_id": 1}}],
    [{"$project": {"_id": 1, "a": 0, "l.x": 0}}],
    [{"$project": {"_id": "$_id", "b": 1}}, {"$set": {"z": "$$ROOT"}}],
    [{"$project": {"b": True, "_id": "$_id", "z": "$a"}}, {"$set": {"z": "$$ROOT"}}],
    [{"$project": {"_id": "$a", "a": 1}}],
    [{"$project": {"_id.x": 1, "a": 1}}],
    [{"$project": {"s": {"x": 1}, "l": {"x": 1}, "a.x": 1}}],
    [{"$project": {"s": {"x": 0}, "l.x": Int64(0), "a.x": 0.0}}],
    [{"$project": {"s": {"x": "$b", "y": 1}, "l": {"x": 1, "y": "$a"}, "a.x": "$b"}}],
    [{"$project": {"a": "text", "z": None, "y": ["$a", "$no"], "x": {"$literal": 1}}}],
    [{"$project": {"a.x": 1, "b": 1}}, {"$set": {"a": 1}}],
    [{"$set": {"q": 1}}, {"$project": {"a.x": 1, "b": 1}}, {"$set": {"a": 1}}],
    [{"$project": {"l.x": 1}}, {"$set": {"z": {"$size": "$l"}}}],
    [{"$project": {"l.x": 1, "z": "$a"}}, {"$set": {"z": {"$size": "$l"}, "y": {"$first": "$l"}}}],
    [{"$project": {"q.r": 1, "z": "$b"}}, {"$set": {"q": 1}}],
    [{"$project": {"z": "$b", "q.r": 1}}, {"$set": {"q": 1}}],
    [{"$project": {"s.x.y": 1, "s.q.r": 1, "s.w": "$a"}}, {"$set": {"s.q": 1, "s.x": 2}}],
    [{"$project": {"l.x.y": 1, "l.q": "$a"}}, {"$set": {"z": {"$map": {"input": "$l", "in": {"$type": "$$this"}}}}}],
    # A migration as people write them.
    [
        {"$set": {"name": {"$split": ["$t", ", "]}}},
        {"$set": {"first": {"$arrayElemAt": ["$name", 0]}, "last": {"$toUpper": {"$last": "$name"}}}},
        {"$unset": ["name", "t"]},
    ],
]


def test_stages_leave_what_the_server_leaves(server: Server) -> None:
    assert _differences(server, STAGES) == []


LISTS: list[Any] = ["$m", "$l", "$s", "$no", ["$m"], ["$m", 3], ["$m", "$m"], [], [[1, 2]], [[[1, 2]]], "$e", "$n"]
SUMMED: list[Any] = [
    [0.1, 0.2, 0.3],
    [1e16, 1.0, -1e16],
    [INT, 1],
    [LONG, 1],
    [LONG, 1, LEAST_LONG],
    [LEAST_LONG, -1, 0.5],
    [LONG, 0.5],
    [Int64(1), 1],
    [1, 1.0],
    [NAN, 1],
    [INF, -INF],
    [INF, 1],
    [-0.0],
    [Int64(2**53 + 1), 0.0, Int64(1)],
    [None, "x"],
    ["$no", ZERO],
    ["$a", "$d", "$b"],
    [1053258209, 975.936, 779339021],
    [Int64(1053258209), 975.936, Int64(779339021)],
    ["$yes", 1],
]
PAIRS: list[Any] = [
    [5, 3],
    [-7, 3],
    [7, -3],
    [-7.5, 3],
    [7, Int64(3)],
    [7, 3.0],
    [Int64(2**53 + 1), 2.0],
    [7, 3e10],
    [LEAST_LONG, Int64(-1)],
    [LEAST, -1],
    [LEAST, 1],
    [LEAST_LONG, 1],
    [-6.0, 3],
    [5, 0.5],
    [1, 0],
    [1, 0.0],
    [INF, 3],
    [3, INF],
    [INF, INF],
    [3, NAN],
    [NAN, 3],
    ["$t", 1],
    [1, "$t"],
    ["$t", None],
    [None, "$t"],
    ["$no", ZERO],
    [1, "$when"],
    ["$yes", 1],
]
ROUNDED: list[Any] = [
    5,
    2.5,
    [-2.5],
    [2.345, 2],
    [2.675, 2],
    [15, -1],
    [25, -1],
    [Int64(25), -1],
    [INT, -1],
    [LONG, -1],
    [LONG, -19],
    [2.5, -1],
    [1e200, 1],
    [1.5, 100],
    [0.1, 60],
    [1 / 3, 33],
    [1 / 3, 34],
    [1.5, 101],
    [1.5, -21],
    [1.5, 1.5],
    [1.5, "x"],
    [1.5, True],
    [1.5, INF],
    [1.5, Int64(2**40)],
    ["x", None],
    [None, "x"],
    [1.5, None],
    NAN,
    -INF,
    -0.4,
    "$t",
    [5e18, -19],
    [4503599627370495.5],
    5e-324,
]
CONVERTED: list[Any] = [
    None,
    "$no",
    0,
    5,
    Int64(5),
    LONG,
    -1.9,
    1.0,
    -0.0,
    0.1,
    1 / 3,
    123456789.0,
    1e15,
    1e20,
    1e-5,
    INF,
    -INF,
    2147483647.5,
    -2147483648.5,
    2.0**63,
    -(2.0**63),
    True,
    "$when",
    "$id",
    "$s",
    "$l",
    Regex("a"),
    b"x",
    Timestamp(1, 2),
    MinKey(),
    DatetimeMS(253402300800000),
    datetime(1969, 12, 31, 23, 59, 59, 999000),
    ["$a"],
]
TEXTS = ["5", "-5", "+5", " 5", "5 ", "", "5.5", "1e3", "0x10", "abc", "inf", "-Infinity", ".5", "5.", "1_0", "\u0663"]
TEXTS += ["99999999999", "9223372036854775808", "-9223372036854775808", "1e400", "1e-400", "0e-400", "--5", "+", "5\0"]
TEXTS += ["00012", "-0", "1d", "1e", "1E+2", "true", "2147483648", "1e-310", "5\n"]
SUBSTRINGS: list[Any] = [
    ["$t", 1, 4],
    ["$t", 0, 100],
    ["$t", 50, 1],
    ["abc", -1, -1],
    ["abc", -1, 1],
    ["abc", 1.0, Int64(1)],
    ["abc", 1.5, 1],
    ["abc", 1, 1.5],
    ["abc", "x", 1],
    ["abc", None, 1],
    ["abc", 1, "x"],
    ["abc", 1, INT],
    ["abc", LONG, 1],
    ["abc", 1, LONG],
    ["abc", 1, INF],
    ["$no", 0, 1],
    [1.5, 0, 3],
    [True, -1, "x"],
    ["\U0001f600b", 1, 1],
]
LOWERED: list[Any] = ["$t", "$no", None, 5, LONG, 1.5, 1e20, INF, "$when", "$yes", "$s", "$l", "$id", ["$t"], [["a"]]]
SPLIT: list[Any] = [
    ["a,b,,c", ","],
    ["", ","],
    ["abc", ""],
    ["abc", None],
    [None, 5],
    [5, ""],
    ["a", 5],
    ["aaa", "aa"],
    ["$t", "ö"],
]
COMPARED: list[Any] = [
    ["$no", None],
    ["$no", "$n"],
    ["$no", "$no"],
    [1, 1.0],
    [{"a": 1}, {"a": 1.0}],
    [{"a": 1, "b": 1}, {"b": 1, "a": 1}],
    [NAN, -INF],
    [NAN, NAN],
    ["a", 1],
    ["$l", "$s"],
    ["\uffff", "\U0001f600"],
    [MinKey(), "$no"],
    [Decimal128("0.1"), 0.1],
    [[1], [1, 2]],
    [True, 1],
    ["$when", "$id"],
]
TRUTHS: list[Any] = [0, NAN, -0.0, "", "$no", None, "$s", Int64(0), Decimal128("0"), Decimal128("NaN"), "$e", "$yes"]
PAIRED: list[Any] = [
    [["a", 1], ["a", 2]],
    [["a", 1], ["b", 0], ["a", 2]],
    [["a", 1], {"k": "b", "v": 1}],
    [{"k": "b", "v": 1}, ["a", 1]],
    [["a"]],
    [["a", 1, 2]],
    [[1, 1]],
    [{"k": 1, "v": 1}],
    [{"k": "a"}],
    [{"k": "a", "w": 1}],
    [{"k": "a", "v": 1, "w": 1}],
    [{"v": 1, "k": "a"}],
    [5],
    [["a", 1], 5],
    [["a\0", 1]],
    [{"k": "a\0", "v": 1}],
    [["\u00e9", 1], ["$a", 2], ["x.y", 3], ["", 4]],
]

EXPRESSIONS: list[Any] = [
    *({name: argument} for name in ("$sum", "$avg", "$min", "$max") for argument in [*LISTS, *SUMMED]),
    *({name: argument} for name in ("$add", "$multiply") for argument in [*SUMMED, [], "$a", "$l", ["$t", None]]),
    *({name: argument} for name in ("$subtract", "$divide", "$mod") for argument in PAIRS),
    *({"$abs": argument} for argument in (-5, LEAST, LEAST_LONG, Int64(-5), -1.5, "$t", None, [-5], -INF, "$yes")),
    *({name: argument} for name in ("$round", "$trunc") for argument in ROUNDED),
    *(
        {name: argument}
        for name in ("$toString", "$toInt", "$toLong", "$toDouble", "$toBool")
        for argument in [*CONVERTED, *({"$literal": text} for text in TEXTS)]
    ),
    {"$toString": NAN},
    *({name: argument} for name in ("$toLower", "$toUpper") for argument in LOWERED),
    *({"$substrCP": argument} for argument in SUBSTRINGS),
    *({"$split": argument} for argument in SPLIT),
    *({"$concat": argument} for argument in ([], "$t", ["a", "$no"], ["a", 1], [None, 1], ["$a", ZERO], "$l")),
    *({"$concat": argument} for argument in (["$no", ZERO], ["\u00e9", "b", "$t"])),
    *({name: pair} for name in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte") for pair in COMPARED),
    *({"$cond": [argument, "yes", "$no"]} for argument in TRUTHS),
    *({name: [argument, 0]} for name in ("$and", "$or") for argument in TRUTHS),
    *({"$not": [argument]} for argument in TRUTHS),
    *({"$toBool": argument} for argument in TRUTHS),
    {"$and": []},
    {"$or": []},
    {"$and": [False, ZERO]},
    {"$or": ["$a", ZERO]},
    {"$cond": {"if": "$a", "then": 1, "else": ZERO}},
    {"$switch": {"branches": [{"case": 0, "then": ZERO}, {"case": "$a", "then": "$b"}]}},
    {"$switch": {"branches": [{"case": 0, "then": 1}]}},
    {"$switch": {"branches": [{"case": 0, "then": 1}], "default": "$no"}},
    *(
        {"$ifNull": argument}
        for argument in (["$no", "$no"], ["$n", "$no"], ["$no", "$n"], ["$no", "$n", 3], [1, ZERO])
    ),
    *(
        {"$in": argument}
        for argument in ([1.0, "$m"], [1, "$a"], ["$no", [None]], [1, "$no"], [{"x": 1.0}, [{"x": 1}]])
    ),
    *({"$mergeObjects": argument} for argument in ([], "$s", "$no", ["$s", None, {"x": 5, "z": 1}], ["$s", 5], "$k")),
    *({"$mergeObjects": argument} for argument in (["$k", {}], "$m", ["$a", ZERO], ["$s", {"x": "$no"}])),
    *({"$arrayElemAt": ["$m", index]} for index in (0, -1, 5, -6, None, "x", 1.0, 1.5, Int64(1), LONG, INF, ZERO)),
    *({"$arrayElemAt": argument} for argument in ([None, "x"], ["$t", None], ["$t", 0], ["$no", ZERO])),
    *({name: argument} for name in ("$first", "$last") for argument in ("$m", "$e", "$t", "$no", ["$m"], [["$m"]])),
    *({"$size": argument} for argument in ("$m", "$e", "$t", "$no", ["$m"], [["a", "b"]])),
    *({"$isArray": argument} for argument in ("$m", "$no", ["$m"], [["a"]], ["a"])),
    *({"$concatArrays": a} for a in (["$m", "$l"], ["$m", "$no", "$t"], ["$t", None], [], "$m", [["$no"], []])),
    *({"$type": argument} for argument in ["$no", None, 1, Int64(1), 1.5, "x", "$s", "$l", True, "$id", "$when", b"x"]),
    *({"$type": a} for a in (Regex("a"), Code("x"), Code("x", {"y": 1}), Decimal128("1"), MinKey(), MaxKey())),
    {"$type": Timestamp(1, 1)},
    *({"$objectToArray": argument} for argument in ("$s", "$no", 5, "$l", {}, {"x": "$no", "y": 1}, ["$s"])),
    *({"$arrayToObject": argument} for argument in ("$k", "$no", 5, "$e", "$m", [[["x", "$no"]]])),
    *({"$arrayToObject": {"$literal": argument}} for argument in PAIRED),
    {"$arrayToObject": [[{"k": "x", "v": "$no"}]]},
    {"$map": {"input": "$l", "in": "$$this.x"}},
    {"$map": {"input": "$l", "as": "one", "in": ["$$one", "$a"]}},
    {"$map": {"input": "$no", "in": ZERO}},
    {"$map": {"input": "$e", "in": ZERO}},
    {"$map": {"input": "$t", "in": 1}},
    {"$map": {"input": [1, 2], "in": {"$map": {"input": [3], "in": {"$add": ["$$this", 1]}}}}},
    {"$filter": {"input": "$m", "cond": {"$gte": ["$$this", 2]}}},
    {"$filter": {"input": "$l", "as": "one", "cond": "$$one.x"}},
    {"$filter": {"input": "$no", "cond": ZERO}},
    {"$filter": {"input": "$t", "cond": 1}},
    {"$let": {"vars": {"x": "$l", "y": "$no"}, "in": ["$$x.x", "$$y", "$$x"]}},
    {"$let": {"vars": {"x": ZERO}, "in": 1}},
    {"$let": {"vars": {"x": 1}, "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x", "$$y"]}}}},
    {"$let": {"vars": {"\u00e9": "$s"}, "in": "$$\u00e9.x"}},
    {"$literal": "$a"},
    {"$literal": {"$x": [1]}},
    {},
    {"x": {}, "gone": "$no", "y": ["$no", {"gone": "$no"}]},
    Binary(b"ab", 128),
]


def test_expressions_have_the_values_and_the_errors_that_the_server_gives(server: Server) -> None:
    assert _differences(server, [[{"$replaceWith": {"r": expression}}] for expression in EXPRESSIONS]) == []


PLAIN: list[Any] = [None, True, False, 0, 1, -7, INT, Int64(3), LONG, 1.0, -0.0, 2.5, 0.1, 1e300, "", "a", "B,b", "12"]
PLAIN += ["\u00e9", b"ab", ObjectId("0" * 24), datetime(2026, 1, 1), Timestamp(1, 1), Regex("a"), Code("f")]
PLAIN += [MinKey(), MaxKey()]
SCALARS = st.sampled_from(PLAIN)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


def _calls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = st.sampled_from(["$abs", "$round", "$trunc", "$toLower", "$toUpper", "$toInt", "$toLong", "$toDouble"])
    one |= st.sampled_from(["$toBool", "$toString", "$type", "$size", "$first", "$last", "$isArray", "$not"])
    one |= st.sampled_from(["$objectToArray", "$arrayToObject", "$sum", "$avg", "$min", "$max", "$mergeObjects"])
    two = st.sampled_from(["$subtract", "$divide", "$mod", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in"])
    two |= st.sampled_from(["$arrayElemAt", "$split", "$ifNull"])
    many = st.sampled_from(["$add", "$multiply", "$concat", "$concatArrays", "$mergeObjects", "$and", "$or"])
    many |= st.sampled_from(["$sum", "$avg", "$min", "$max"])
    return st.one_of(
        st.tuples(one, inner.map(lambda argument: [argument])).map(lambda call: dict([call])),
        st.tuples(two, st.lists(inner, min_size=2, max_size=2)).map(lambda call: dict([call])),
        st.tuples(many, st.lists(inner, max_size=3)).map(lambda call: dict([call])),
        st.lists(inner, min_size=3, max_size=3).map(lambda three: {"$cond": three}),
        st.lists(inner, min_size=3, max_size=3).map(lambda three: {"$substrCP": three}),
        st.tuples(inner, inner).map(lambda two: {"$map": {"input": two[0], "in": [two[1], "$$this"]}}),
        st.tuples(inner, inner).map(lambda two: {"$filter": {"input": two[0], "cond": {"$ne": ["$$this", two[1]]}}}),
        st.tuples(inner, PATHS).map(lambda two: {"$let": {"vars": {"v": two[0]}, "in": f"$$v.{two[1]}"}}),
        st.dictionaries(NAMES, inner, max_size=2),
        st.lists(inner, max_size=2),
    )


FORMULAS = st.recursive(
    PATHS.map("${}".format) | VALUES.map(lambda value: {"$literal": value}) | st.sampled_from(["$$REMOVE", "$$ROOT"]),
    _calls,
    max_leaves=5,
)


def _apart(paths: Sequence[str]) -> bool:
    """No path is another one, or above it."""
    return not any(one != other and f"{other}.".startswith(f"{one}.") for one in paths for other in paths)


def _specifications(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(PATHS, values, min_size=1, max_size=3).filter(lambda given: _apart(list(given)))


# What is said of a field must not look like the fields below it.
SET = _specifications(FORMULAS.map(lambda formula: {"$ifNull": [formula, formula]}))
PIPELINES = st.lists(
    st.one_of(
        SET.map(lambda given: {"$set": given}),
        st.lists(PATHS, min_size=1, max_size=3, unique=True).filter(_apart).map(lambda paths: {"$unset": paths}),
        _specifications(st.just(1) | FORMULAS.map(lambda formula: {"$ifNull": [formula, formula]})).map(
            lambda given: {"$project": given}
        ),
        _specifications(st.just(0)).map(lambda given: {"$project": given}),
        st.sampled_from([{"$replaceWith": {"$mergeObjects": ["$$ROOT", "$a"]}}, {"$replaceWith": "$b"}]),
    ),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=400,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@seed(20260101)
@given(document=st.dictionaries(NAMES, VALUES, max_size=3), stages=PIPELINES)
@example(document={"a": [1, {"b": 1}]}, stages=[{"$project": {"a.b": 1, "c": {"$ifNull": ["$a", 1]}}}])
def test_random_pipelines_leave_on_random_documents_what_the_server_leaves(
    server: Server, document: dict[str, Any], stages: list[dict[str, Any]]
) -> None:
    whole = {"_id": 1, **document}
    expected = server.update(whole, stages)
    try:
        found = _in_memory(whole, stages)
    except QueryUnsupportedError as unknown:
        event(f"not supported: {unknown.what}")
        return
    event("refused" if isinstance(expected, int) else "written")
    assert found == expected, (_readable(expected), _readable(found))
