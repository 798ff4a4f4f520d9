"""A small evaluator of MongoDB queries: what filters and scopes of migrations are made of.

Anything it does not know it refuses; it never guesses. Source of the semantics: MongoDB manual, "Query and
Projection Operators", compared with a real server by the project's tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import bson
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.regex import Regex

from migronaut.core.partitioning import BRACKETS
from migronaut.memory.server.order import ARRAY, NAN, NULL, Key, bracket_of, sort_key
from migronaut.versioning import CODEC

Matches = Callable[[Mapping[str, Any]], bool]
_Test = Callable[[Any], bool]
_Field = Callable[[Sequence[Any]], bool]

_MISSING: Any = object()
_NULL_KEY: Key = (NULL,)
_TYPES = frozenset({bracket.name for bracket in BRACKETS} | {"array", "double", "int", "long", "decimal"})


class QueryUnsupportedError(NotImplementedError):
    """The memory ports do not know this part of the query language."""

    def __init__(self, what: str, advice: str = "run this test against a real MongoDB") -> None:
        super().__init__(f"The in-memory collection does not support {what}: {advice}.")
        self.what = what


def compile_query(query: Mapping[str, Any]) -> Matches:
    """Make a predicate on decoded documents out of a query.

    Raises:
        QueryUnsupportedError: An operator or a form that is not supported, or that MongoDB refuses.
    """
    stored: dict[str, Any] = bson.decode(bson.encode(query, codec_options=CODEC), codec_options=CODEC)
    return _all(stored)


def _all(query: Mapping[str, Any]) -> Matches:
    clauses = [_clause(name, value) for name, value in query.items()]
    return lambda document: all(clause(document) for clause in clauses)


def _clause(name: str, value: Any) -> Matches:
    if not name.startswith("$"):
        return _on_path(name, value)
    if name not in {"$and", "$or", "$nor"}:
        raise QueryUnsupportedError(f"the operator {name}")
    if not isinstance(value, list) or not value or not all(isinstance(inner, Mapping) for inner in value):
        raise QueryUnsupportedError(f"{name} without a list of queries")
    inner = [_all(query) for query in value]
    if name == "$and":
        return lambda document: all(matches(document) for matches in inner)
    if name == "$or":
        return lambda document: any(matches(document) for matches in inner)
    return lambda document: not any(matches(document) for matches in inner)


def _on_path(path: str, value: Any) -> Matches:
    parts = path.split(".")
    if any(part.isdigit() for part in parts[1:]):
        raise QueryUnsupportedError("array positions in a path")
    test = _operators(value) if _is_expression(value) else _field_test("$eq", value)
    return lambda document: test(list(_candidates(document, parts)))


def _is_expression(value: Any) -> bool:
    return isinstance(value, Mapping) and next(iter(value), "").startswith("$")


def _candidates(document: Mapping[str, Any], parts: Sequence[str]) -> Iterator[Any]:
    """The values that a path leads to; an array gives its elements and itself, but not half-way."""
    value: Any = document
    for index, part in enumerate(parts, start=1):
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
        if isinstance(value, list):
            if index == len(parts):
                yield from value
                break
            for element in value:
                if isinstance(element, Mapping):
                    yield from _candidates(element, parts[index:])
            return
    yield value


def _operators(expression: Mapping[str, Any]) -> _Field:
    tests = [_field_test(operator, operand) for operator, operand in expression.items()]
    return lambda values: all(test(values) for test in tests)


def _field_test(operator: str, operand: Any) -> _Field:
    """The test of one operator on all candidates of a path."""
    if operator == "$not":
        if not _is_expression(operand):
            raise QueryUnsupportedError("$not without operators")
        inner = _operators(operand)
        return lambda values: not inner(values)
    if operator in {"$ne", "$nin"}:
        positive = _value_test("$eq" if operator == "$ne" else "$in", operand)
        return lambda values: not any(positive(value) for value in values)
    if operator == "$exists":
        wanted = _is_true(operand)
        return lambda values: any(value is not _MISSING for value in values) is wanted
    test = _value_test(operator, operand)
    return lambda values: any(test(value) for value in values)


def _is_true(operand: Any) -> bool:
    """Truth as the server sees it: an empty text or list is true."""
    if isinstance(operand, Decimal128):
        return bool(operand.to_decimal())
    return bool(operand) if operand is None or isinstance(operand, int | float) else True


def _value_test(operator: str, operand: Any) -> _Test:
    if operator in {"$eq", *_ORDER}:
        return _comparison(operator, operand)
    if operator == "$in":
        if not isinstance(operand, list) or any(_is_expression(inner) for inner in operand):
            raise QueryUnsupportedError("$in without a list of values")
        tests = [_comparison("$eq", inner) for inner in operand]
        return lambda value: any(test(value) for test in tests)
    if operator == "$type":
        names = operand if isinstance(operand, list) and operand else [operand]
        wanted = frozenset(_type_name(name) for name in names)
        return lambda value: value is not _MISSING and not wanted.isdisjoint(_types(value))
    raise QueryUnsupportedError(f"the operator {operator}")


_ORDER: Mapping[str, Callable[[Key, Key], bool]] = {
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
}


def _comparison(operator: str, operand: Any) -> _Test:
    if isinstance(operand, Regex):
        raise QueryUnsupportedError("regular expressions")
    if operator != "$eq" and isinstance(operand, MinKey | MaxKey):
        raise QueryUnsupportedError(f"{operator} with minKey or maxKey")
    wanted = sort_key(operand)
    compare = _ORDER.get(operator)
    inclusive = operator not in {"$lt", "$gt"}

    def test(value: Any) -> bool:
        """Whether a value lies on that side, inside its type bracket."""
        key = _NULL_KEY if value is _MISSING else sort_key(value)
        if key == wanted:
            return inclusive
        # Order stays inside one type; NaN is in no order with numbers, though it sorts below them.
        return compare is not None and key[0] == wanted[0] and NAN not in {key, wanted} and compare(key, wanted)

    return test


def _type_name(name: Any) -> str:
    if isinstance(name, str) and name in _TYPES:
        return name
    raise QueryUnsupportedError("this operand of $type")


def _types(value: Any) -> frozenset[str]:
    key = sort_key(value)
    if key[0] == ARRAY:
        return frozenset({"array"})
    names = {bracket_of(key)}
    if "number" in names:
        names.add(_number_type(value))
    return frozenset(names)


def _number_type(value: Any) -> str:
    match value:
        case Int64():
            return "long"
        case int():
            return "int"
        case float():
            return "double"
    return "decimal"
