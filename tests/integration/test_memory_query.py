"""The in-memory collection answers as MongoDB does: random documents, queries, ids and updates on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import WriteError

from migronaut.core.ports import WriteRefusedError
from migronaut.memory import MemoryServer
from migronaut.versioning import CODEC

Real = Collection[dict[str, Any]]

EXAMPLES = settings(
    max_examples=120,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SCALARS = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        -1,
        Int64(1),
        Int64(2**53 + 1),
        1.0,
        -0.0,
        1.5,
        float(2**53),
        float("nan"),
        float("inf"),
        Decimal128("1"),
        Decimal128("1.5"),
        Decimal128("0.1"),
        Decimal128("NaN"),
        "",
        "a",
        "B",
        "é",
        "\U0001f600",
        "\uffff",
        b"",
        b"ab",
        Binary(b"ab", 128),
        UUID(int=1),
        ObjectId("0" * 24),
        ObjectId("f" * 24),
        datetime(1969, 1, 1),
        datetime(2026, 1, 1),
        Timestamp(1, 1),
        Timestamp(1, 2),
        MinKey(),
        MaxKey(),
        Code("f"),
    ]
)
NAMES = st.sampled_from(["a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
DOCUMENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=2), min_size=1, max_size=8)

_ordered = VALUES.filter(lambda value: not isinstance(value, MinKey | MaxKey))
_kinds = ["minKey", "null", "string", "object", "array", "binData", "objectId", "bool", "date", "timestamp", "maxKey"]
_types = st.sampled_from([*_kinds, "number", "int", "long", "double", "decimal"])
TESTS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), VALUES),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), _ordered),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(VALUES, max_size=3)),
    st.tuples(st.just("$exists"), SCALARS),
    st.tuples(st.just("$type"), _types | st.lists(_types, min_size=1, max_size=2)),
)
EXPRESSIONS = st.lists(TESTS, min_size=1, max_size=2).map(dict)
PATHS = st.sampled_from(["a", "b", "a.b", "a.a", "a.b.a"])
LEAVES = st.dictionaries(
    PATHS, VALUES | EXPRESSIONS | EXPRESSIONS.map(lambda inner: {"$not": inner}), min_size=1, max_size=2
)
QUERIES = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or", "$nor"]), st.lists(inner, min_size=1, max_size=2), min_size=1, max_size=1
    ),
    max_leaves=3,
)


@pytest.fixture
def real(db: Database[Any]) -> Real:
    return db.create_collection("documents", codec_options=CODEC)


def _both(real: Real, documents: Sequence[Mapping[str, Any]]) -> Any:
    """The same documents in the real collection and in one in memory."""
    memory = MemoryServer().collection("documents")
    memory.insert(*documents)
    real.delete_many({})
    real.insert_many(documents)
    return memory


def _code(act: Callable[[], object]) -> int | None:
    """The code with which a write is refused."""
    try:
        act()
    except (WriteError, WriteRefusedError) as error:
        return error.code
    return None


def _raw(documents: Sequence[Mapping[str, Any]]) -> list[bytes]:
    return [bson.encode(document, codec_options=CODEC) for document in documents]


@EXAMPLES
@given(documents=DOCUMENTS, queries=st.lists(QUERIES, min_size=1, max_size=4))
@example(documents=[{"a": []}, {"a": [1]}, {"a": 5}, {}], queries=[{"a.b": None}, {"a.b": {"$exists": False}}])
@example(documents=[{"a": None}, {}, {"a": [None]}], queries=[{"a": {"$gte": None}}, {"a": {"$ne": None}}])
@example(documents=[{"a": float("nan")}, {"a": 1}], queries=[{"a": {"$lt": 1}}, {"a": {"$gte": float("nan")}}])
@example(documents=[{"a": [[1]]}, {"a": [1]}], queries=[{"a": [1]}, {"a": {"$type": "array"}}, {"a": {"$gt": []}}])
def test_queries_find_what_the_server_finds(
    real: Real, documents: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> None:
    numbered = [{"_id": number, **document} for number, document in enumerate(documents)]
    memory = _both(real, numbered)
    for query in queries:
        assert _raw(memory.find(query)) == _raw(list(real.find(query).sort("_id", 1))), query


@EXAMPLES
@given(ids=st.lists(VALUES.filter(lambda id_: not isinstance(id_, list)), min_size=1, max_size=12))
def test_ids_are_one_and_sort_as_on_the_server(real: Real, ids: list[Any]) -> None:
    memory = _both(real, [{"_id": "x"}])
    for id_ in ids:
        assert _code(lambda id_=id_: memory.insert({"_id": id_})) == _code(
            lambda id_=id_: real.insert_one({"_id": id_})
        )
    assert _raw(memory.find()) == _raw(list(real.find().sort("_id", 1)))


FIELDS = st.sampled_from(["a", "b", "c", "10", "9", "B", "é"])
NUMBERS = st.sampled_from([0, 1, -1, 2**31 - 1, Int64(1), Int64(2**63 - 1), 1.5, float("nan")])
SETS = st.fixed_dictionaries({}, optional={"$set": st.dictionaries(FIELDS, VALUES, min_size=1, max_size=4)}).flatmap(
    lambda sets: st.fixed_dictionaries(
        {name: st.just(value) for name, value in sets.items()},
        optional={
            "$unset": st.dictionaries(FIELDS.filter(lambda f: f not in sets.get("$set", {})), st.just(""), max_size=2)
        },
    )
)


@EXAMPLES
@given(
    document=st.dictionaries(FIELDS, VALUES | NUMBERS, max_size=4),
    update=SETS.filter(bool),
    steps=st.dictionaries(st.sampled_from(["m", "n", "0"]), NUMBERS, max_size=3),
    counted=st.dictionaries(st.sampled_from(["n"]), NUMBERS | SCALARS.filter(lambda v: type(v) is not Decimal128)),
)
def test_updates_leave_the_bytes_that_the_server_leaves(
    real: Real, document: dict[str, Any], update: dict[str, Any], steps: dict[str, Any], counted: dict[str, Any]
) -> None:
    memory = _both(real, [{"_id": 1, **counted, **document}])
    whole = {name: value for name, value in {**update, "$inc": steps}.items() if value}
    if not whole:
        return
    assert _code(lambda: memory.update(1, whole)) == _code(lambda: real.update_one({"_id": 1}, whole)), whole
    assert _raw(memory.find()) == _raw(list(real.find())), whole
