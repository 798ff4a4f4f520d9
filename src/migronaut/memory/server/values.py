"""BSON values of the expression evaluator: bytes as stored, until an expression makes something new.

A document remembers the places of fields that were removed, as the server does between the stages of one update:
a field that is set again comes back to its old place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import bson
from attrs import frozen

from migronaut.memory.server import order
from migronaut.memory.server.elements import by_name, inner
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.versioning import CODEC, document

_TOLERANT = CODEC.with_options(unicode_decode_error_handler="surrogateescape")


class Kind(IntEnum):
    """Types of BSON values. Source: the BSON specification, version 1.1; ``MISSING`` is none of them."""

    MISSING = 0x00
    DOUBLE = 0x01
    STRING = 0x02
    OBJECT = 0x03
    ARRAY = 0x04
    BINARY = 0x05
    UNDEFINED = 0x06
    OBJECT_ID = 0x07
    BOOL = 0x08
    DATE = 0x09
    NULL = 0x0A
    REGEX = 0x0B
    DB_POINTER = 0x0C
    CODE = 0x0D
    SYMBOL = 0x0E
    SCOPED_CODE = 0x0F
    INT = 0x10
    TIMESTAMP = 0x11
    LONG = 0x12
    DECIMAL = 0x13
    MAX_KEY = 0x7F
    MIN_KEY = 0xFF


_DEPRECATED = frozenset({Kind.UNDEFINED, Kind.DB_POINTER, Kind.SYMBOL})
NUMBERS = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.DECIMAL})
_NULLISH = frozenset({Kind.MISSING, Kind.NULL, Kind.UNDEFINED})
_NUMBER_FORMATS = {Kind.DOUBLE: "<d", Kind.INT: "<i", Kind.LONG: "<q"}


@frozen(eq=False)
class Value:
    """A value, or the absence of one.

    Args:
        kind: Its type.
        data: The bytes as stored, without type and name; or what an expression made: the fields of a document (with
            missing ones, which hold a place), the elements of an array.
    """

    kind: Kind
    data: bytes | Mapping[bytes, Value] | tuple[Value, ...] = b""


MISSING = Value(Kind.MISSING)
NULL = Value(Kind.NULL)


def stored_document(raw: bytes) -> Value:
    """A document as stored."""
    return Value(Kind.OBJECT, raw)


def fields(value: Value) -> dict[bytes, Value]:
    """The fields of a document by name, places of removed fields included.

    Raises:
        QueryUnsupportedError: A name occurs twice.
    """
    if isinstance(value.data, Mapping):
        return dict(value.data)
    found = by_name(_stored(value))
    if sum(len(element) for element in found.values()) + 5 != len(_stored(value)):
        raise QueryUnsupportedError("documents in which a name occurs twice")
    return {name: Value(Kind(element[0]), inner(element, name)) for name, element in found.items()}


def present(value: Value) -> dict[bytes, Value]:
    """The fields that a document has."""
    return {name: field for name, field in fields(value).items() if field.kind != Kind.MISSING}


def items(value: Value) -> tuple[Value, ...]:
    """The elements of an array; a projection leaves missing ones behind until the document is written."""
    return value.data if isinstance(value.data, tuple) else tuple(fields(value).values())


def encoded(value: Value) -> bytes:
    """The bytes of a value, without type and name."""
    if isinstance(value.data, bytes):
        return value.data
    if isinstance(value.data, tuple):
        there = [item for item in value.data if item.kind != Kind.MISSING]
        return document(*(element(b"%d" % index, item) for index, item in enumerate(there)))
    return document(*(element(name, field) for name, field in present(value).items()))


def element(name: bytes, value: Value) -> bytes:
    """A value with its type and name."""
    return bytes([value.kind]) + name + b"\0" + encoded(value)


def array(values: Iterable[Value]) -> Value:
    """An array of these elements."""
    return Value(Kind.ARRAY, tuple(values))


def text(characters: bytes) -> Value:
    """A string (UTF-8)."""
    return Value(Kind.STRING, (len(characters) + 1).to_bytes(4, "little") + characters + b"\0")


def characters(value: Value) -> bytes:
    """The UTF-8 of a string."""
    return _stored(value)[4:-1]


def boolean(true: object) -> Value:
    """True or false."""
    return Value(Kind.BOOL, b"\1" if true else b"\0")


def double(number: float) -> Value:
    """A double."""
    return Value(Kind.DOUBLE, struct.pack("<d", number))


def long(number: int) -> Value:
    """A 64-bit integer."""
    return Value(Kind.LONG, struct.pack("<q", number))


def integer(number: int) -> Value:
    """The narrowest integer that holds a number of 64 bits."""
    return Value(Kind.INT, struct.pack("<i", number)) if -(2**31) <= number < 2**31 else long(number)


def number(value: Value) -> int | float:
    """An int, a long or a double.

    Raises:
        QueryUnsupportedError: A decimal: its arithmetic is not done here.
    """
    if value.kind == Kind.DECIMAL:
        raise QueryUnsupportedError("arithmetic with decimals")
    (found,) = struct.unpack(_NUMBER_FORMATS[value.kind], _stored(value))
    return found if value.kind == Kind.DOUBLE else int(found)


def small(value: Value) -> int | None:
    """A number as an integer of 32 bits; None when it is none."""
    found = number(value)
    return int(found) if -(2**31) <= found < 2**31 and found == int(found) else None


def milliseconds(value: Value) -> int:
    """A date as milliseconds since 1970."""
    return int.from_bytes(_stored(value), "little", signed=True)


def is_nullish(value: Value) -> bool:
    """True when it is missing or null."""
    return value.kind in _NULLISH


def is_true(value: Value) -> bool:
    """Truth as the server sees it: an empty text or array is true, and so is NaN."""
    if value.kind == Kind.DECIMAL:
        return bool(_decoded(value).to_decimal())
    if value.kind in NUMBERS:
        return bool(number(value))
    return value.data != b"\0" if value.kind == Kind.BOOL else not is_nullish(value)


def key(value: Value) -> order.Key:
    """Sorts as the server sorts; what is missing comes before null.

    Raises:
        QueryUnsupportedError: A deprecated type.
    """
    if value.kind in _DEPRECATED:
        raise QueryUnsupportedError("comparisons of deprecated BSON types")
    if value.kind == Kind.OBJECT:
        keys = [(name, key(field)) for name, field in present(value).items()]
        return (order.OBJECT, tuple((inner_key[0], name, inner_key) for name, inner_key in keys))
    if value.kind == Kind.ARRAY:
        return (order.ARRAY, tuple(key(item) for item in items(value)))
    return (0,) if value.kind == Kind.MISSING else order.sort_key(_decoded(value))


def _decoded(value: Value) -> Any:
    return bson.decode(document(element(b"", value)), codec_options=_TOLERANT)[""]


def _stored(value: Value) -> bytes:
    if not isinstance(value.data, bytes):
        raise TypeError("this value was made and has no stored bytes")
    return value.data
