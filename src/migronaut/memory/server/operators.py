"""Operators of the expression evaluator whose arguments are plain expressions: logic, arrays, documents.

Source of the semantics: MongoDB manual, "Expression Operators", and MongoDB 6.0 itself, with which the project's
tests compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.arithmetic import ACCUMULATORS, ARITHMETIC, Operator
from migronaut.memory.server.conversions import CONVERSIONS
from migronaut.memory.server.order import Key
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import (
    MISSING,
    NULL,
    NUMBERS,
    Kind,
    Value,
    array,
    boolean,
    characters,
    integer,
    is_nullish,
    is_true,
    items,
    key,
    present,
    small,
    text,
)

_IN_TYPE, _MERGE_TYPE, _AT_TYPE, _AT_INDEX_TYPE, _AT_INDEX_BROKEN = 40081, 40400, 28689, 28690, 28691
_SIZE_TYPE, _CONCAT_TYPE, _TO_ARRAY_TYPE, _TO_OBJECT_TYPE, _TO_OBJECT_ELEMENT = 17124, 28664, 40390, 40386, 40398
_NO_OBJECT, _OBJECT_SIZE, _OBJECT_NAMES, _OBJECT_KEY, _PAIR_KEY, _NO_PAIR, _PAIR_SIZE = range(40391, 40398)
_PAIR_NUL, _OBJECT_NUL = 4940400, 4940401
_TYPE_NAMES = {
    Kind.MISSING: "missing",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.OBJECT: "object",
    Kind.ARRAY: "array",
    Kind.BINARY: "binData",
    Kind.UNDEFINED: "undefined",
    Kind.OBJECT_ID: "objectId",
    Kind.BOOL: "bool",
    Kind.DATE: "date",
    Kind.NULL: "null",
    Kind.REGEX: "regex",
    Kind.DB_POINTER: "dbPointer",
    Kind.CODE: "javascript",
    Kind.SYMBOL: "symbol",
    Kind.SCOPED_CODE: "javascriptWithScope",
    Kind.INT: "int",
    Kind.TIMESTAMP: "timestamp",
    Kind.LONG: "long",
    Kind.DECIMAL: "decimal",
    Kind.MAX_KEY: "maxKey",
    Kind.MIN_KEY: "minKey",
}


def _comparison(holds: Callable[[Key, Key], bool]) -> Operator:
    def compare(values: Iterator[Value]) -> Value:
        """Compare two values in BSON order."""
        left, right = values
        return boolean(holds(key(left), key(right)))

    return compare


def _and(values: Iterator[Value]) -> Value:
    return boolean(all(is_true(value) for value in values))


def _or(values: Iterator[Value]) -> Value:
    return boolean(any(is_true(value) for value in values))


def _not(values: Iterator[Value]) -> Value:
    (value,) = values
    return boolean(not is_true(value))


def _in(values: Iterator[Value]) -> Value:
    value, among = values
    if among.kind != Kind.ARRAY:
        raise WriteRefusedError(_IN_TYPE)
    wanted = key(value)
    return boolean(any(key(item) == wanted for item in items(among)))


def _if_null(values: Iterator[Value]) -> Value:
    last = MISSING
    for value in values:
        if not is_nullish(value):
            return value
        last = value
    return last


def _type(values: Iterator[Value]) -> Value:
    (value,) = values
    return text(_TYPE_NAMES[value.kind].encode())


def _is_array(values: Iterator[Value]) -> Value:
    (value,) = values
    return boolean(value.kind == Kind.ARRAY)


def _size(values: Iterator[Value]) -> Value:
    (value,) = values
    if value.kind != Kind.ARRAY:
        raise WriteRefusedError(_SIZE_TYPE)
    return integer(len(items(value)))


def _element_at(values: Iterator[Value]) -> Value:
    value, index = values
    if is_nullish(value) or is_nullish(index):
        return NULL
    if value.kind != Kind.ARRAY:
        raise WriteRefusedError(_AT_TYPE)
    if index.kind not in NUMBERS:
        raise WriteRefusedError(_AT_INDEX_TYPE)
    at = small(index)
    if at is None:
        raise WriteRefusedError(_AT_INDEX_BROKEN)
    return _at(value, at)


def _end(at: int) -> Operator:
    def element(values: Iterator[Value]) -> Value:
        """The item at that end of an array."""
        (value,) = values
        if is_nullish(value):
            return NULL
        if value.kind != Kind.ARRAY:
            raise WriteRefusedError(_AT_TYPE)
        return _at(value, at)

    return element


def _at(value: Value, at: int) -> Value:
    found = items(value)
    return found[at] if -len(found) <= at < len(found) else MISSING


def _concat_arrays(values: Iterator[Value]) -> Value:
    joined: list[Value] = []
    for value in values:
        if is_nullish(value):
            return NULL
        if value.kind != Kind.ARRAY:
            raise WriteRefusedError(_CONCAT_TYPE)
        joined += items(value)
    return array(joined)


def _merge(values: Iterator[Value]) -> Value:
    merged: dict[bytes, Value] = {}
    for value in values:
        if is_nullish(value):
            continue
        if value.kind != Kind.OBJECT:
            raise WriteRefusedError(_MERGE_TYPE)
        merged |= present(value)
    return Value(Kind.OBJECT, merged)


def _to_array(values: Iterator[Value]) -> Value:
    (value,) = values
    if is_nullish(value):
        return NULL
    if value.kind != Kind.OBJECT:
        raise WriteRefusedError(_TO_ARRAY_TYPE)
    return array(Value(Kind.OBJECT, {b"k": text(name), b"v": field}) for name, field in present(value).items())


def _to_object(values: Iterator[Value]) -> Value:
    (value,) = values
    if is_nullish(value):
        return NULL
    if value.kind != Kind.ARRAY:
        raise WriteRefusedError(_TO_OBJECT_TYPE)
    found = items(value)
    if found and found[0].kind not in {Kind.ARRAY, Kind.OBJECT}:
        raise WriteRefusedError(_TO_OBJECT_ELEMENT)
    read = _pair if found and found[0].kind == Kind.ARRAY else _key_and_value
    return Value(Kind.OBJECT, dict(read(item) for item in found))


def _pair(item: Value) -> tuple[bytes, Value]:
    if item.kind != Kind.ARRAY:
        raise WriteRefusedError(_NO_PAIR)
    pair = items(item)
    if len(pair) != 2:
        raise WriteRefusedError(_PAIR_SIZE)
    if pair[0].kind != Kind.STRING:
        raise WriteRefusedError(_PAIR_KEY)
    return _name(pair[0], _PAIR_NUL), pair[1]


def _key_and_value(item: Value) -> tuple[bytes, Value]:
    if item.kind != Kind.OBJECT:
        raise WriteRefusedError(_NO_OBJECT)
    found = present(item)
    if len(found) != 2:
        raise WriteRefusedError(_OBJECT_SIZE)
    if found.keys() != {b"k", b"v"}:
        raise WriteRefusedError(_OBJECT_NAMES)
    if found[b"k"].kind != Kind.STRING:
        raise WriteRefusedError(_OBJECT_KEY)
    return _name(found[b"k"], _OBJECT_NUL), found[b"v"]


def _name(value: Value, code: int) -> bytes:
    name = characters(value)
    if b"\0" in name:
        raise WriteRefusedError(code)
    return name


_OTHERS: Mapping[str, tuple[int, int | None, Operator]] = {
    "$eq": (2, 2, _comparison(lambda a, b: a == b)),
    "$ne": (2, 2, _comparison(lambda a, b: a != b)),
    "$gt": (2, 2, _comparison(lambda a, b: a > b)),
    "$gte": (2, 2, _comparison(lambda a, b: a >= b)),
    "$lt": (2, 2, _comparison(lambda a, b: a < b)),
    "$lte": (2, 2, _comparison(lambda a, b: a <= b)),
    "$and": (0, None, _and),
    "$or": (0, None, _or),
    "$not": (1, 1, _not),
    "$in": (2, 2, _in),
    "$ifNull": (2, None, _if_null),
    "$type": (1, 1, _type),
    "$isArray": (1, 1, _is_array),
    "$size": (1, 1, _size),
    "$arrayElemAt": (2, 2, _element_at),
    "$first": (1, 1, _end(0)),
    "$last": (1, 1, _end(-1)),
    "$concatArrays": (0, None, _concat_arrays),
    "$objectToArray": (1, 1, _to_array),
    "$arrayToObject": (1, 1, _to_object),
}
_FUNCTIONS = {**ARITHMETIC, **CONVERSIONS, **_OTHERS}
_OVER_ELEMENTS = {**ACCUMULATORS, "$mergeObjects": _merge}


def operator(name: str, arguments: int) -> Operator:
    """The operator of this name for so many arguments.

    Raises:
        QueryUnsupportedError: It is unknown, or takes another number of arguments.
    """
    if name in _OVER_ELEMENTS:
        over = _OVER_ELEMENTS[name]
        return _spread(over) if arguments == 1 else over
    if name not in _FUNCTIONS:
        raise QueryUnsupportedError(f"the operator {name}")
    least, most, function = _FUNCTIONS[name]
    if arguments < least or (most is not None and arguments > most):
        raise QueryUnsupportedError(f"{name} with {arguments} arguments")
    return function


def _spread(over: Operator) -> Operator:
    def spread(values: Iterator[Value]) -> Value:
        """One array counts as its items."""
        (value,) = values
        return over(iter(items(value) if value.kind == Kind.ARRAY else (value,)))

    return spread
