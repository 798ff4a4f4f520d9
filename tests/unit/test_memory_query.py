"""The query evaluator refuses what it does not know; what it knows is compared with a real server elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from bson.min_key import MinKey
from bson.regex import Regex

from migronaut.memory import MemoryServer, QueryUnsupportedError


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({"a": {"$regex": "x"}}, "$regex"),
        ({"a": {"$elemMatch": {"b": 1}}}, "$elemMatch"),
        ({"a": {"$gt": 1, "$size": 2}}, "$size"),
        ({"$expr": {"$eq": ["$a", 1]}}, "$expr"),
        ({"$where": "1"}, "$where"),
        ({"a": Regex("x")}, "regular expressions"),
        ({"a": {"$in": [Regex("x")]}}, "regular expressions"),
        ({"a": {"$gt": MinKey()}}, "minKey"),
        ({"a": {"$type": 16}}, "$type"),
        ({"a": {"$type": []}}, "$type"),
        ({"a": {"$not": 1}}, "$not"),
        ({"a": {"$in": 1}}, "$in"),
        ({"$or": []}, "$or"),
        ({"$and": {"a": 1}}, "$and"),
        ({"a.0": 1}, "array positions"),
    ],
)
def test_what_is_not_supported_is_named_even_without_documents(query: dict[str, Any], what: str) -> None:
    with pytest.raises(QueryUnsupportedError, match="real MongoDB") as refused:
        MemoryServer().collection("c").find(query)
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, [0, 1, 2, 3]),
        ({"v": {"$in": [None, 0]}}, [0, 1, 2]),
        ({"v": {"$exists": False}}, [0]),
        ({"items.price": {"$gte": 2}}, [3]),
        ({"$nor": [{"v": 0}, {"items": {"$exists": True}}]}, [0, 1]),
        ({"_id": {"$type": "number", "$gt": 0, "$lte": 2}}, [1, 2]),
    ],
)
def test_filters_of_migrations_find_their_documents(query: dict[str, Any], ids: list[int]) -> None:
    collection = MemoryServer().collection("c")
    collection.insert({"_id": 0}, {"_id": 1, "v": None}, {"_id": 2, "v": 0})
    collection.insert({"_id": 3, "v": 1, "items": [{"price": 1}, {"price": 2}]})
    assert [document["_id"] for document in collection.find(query)] == ids
