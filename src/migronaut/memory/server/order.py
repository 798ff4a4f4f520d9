"""How BSON values sort: by type first, then by value.

Source: MongoDB manual, "Comparison/Sort Order"; numbers of all types are one type, NaN is the lowest.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import bson
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from migronaut.versioning import CODEC

Key = tuple[Any, ...]
"""Sorts as the server sorts, is hashable, and is equal exactly when the server calls two values equal."""

NULL, NUMBER, OBJECT, ARRAY = 5, 10, 20, 25
_MIN, _STRING, _BIN, _ID, _BOOL, _DATE = -1, 15, 30, 35, 40, 45
_STAMP, _REGEX, _CODE, _SCOPED, _MAX = 47, 50, 60, 65, 127
_BRACKETS = {
    _MIN: "minKey",
    NULL: "null",
    NUMBER: "number",
    _STRING: "string",
    OBJECT: "object",
    _BIN: "binData",
    _ID: "objectId",
    _BOOL: "bool",
    _DATE: "date",
    _STAMP: "timestamp",
    _CODE: "javascript",
    _SCOPED: "javascriptWithScope",
    _MAX: "maxKey",
}
NAN: Key = (NUMBER, 0)


def as_stored(value: Any) -> Any:
    """The value as it comes back from a database."""
    return bson.decode(bson.encode({"": value}, codec_options=CODEC), codec_options=CODEC)[""]


def bracket_of(key: Key) -> str:
    """Name of the type bracket (``core.partitioning.BRACKETS``) of a value, by its key."""
    return _BRACKETS[key[0]]


def sort_key(value: Any) -> Key:
    """The key of a value as decoded with ``CODEC``."""
    match value:
        case None:
            return (NULL,)
        case bool():
            return (_BOOL, value)
        case int() | float():
            return NAN if value != value else (NUMBER, 1, value)  # noqa: PLR0124 - NaN
        case Decimal128():
            number = value.to_decimal()
            return NAN if number.is_nan() else (NUMBER, 1, number)
        case Code():
            return (_CODE, str(value)) if value.scope is None else (_SCOPED, str(value), sort_key(value.scope))
        case str():
            return (_STRING, value)
        case Mapping():
            return (OBJECT, tuple(_field_key(name, inner) for name, inner in value.items()))
        case list() | tuple():
            return (ARRAY, tuple(sort_key(element) for element in value))
        case _:
            return _scalar_key(value)


def _scalar_key(value: Any) -> Key:  # noqa: PLR0911 - one line a type
    match value:
        case UUID():
            return (_BIN, 16, 4, value.bytes)
        case Binary():
            return (_BIN, len(value), value.subtype, bytes(value))
        case bytes():
            return (_BIN, len(value), 0, value)
        case ObjectId():
            return (_ID, value.binary)
        case datetime():
            return (_DATE, int(DatetimeMS(value)))
        case DatetimeMS():
            return (_DATE, int(value))
        case Timestamp():
            return (_STAMP, value.time, value.inc)
        case Regex():
            return (_REGEX, value.pattern, value.flags)
        case DBRef():
            return sort_key(value.as_doc())
        case MinKey():
            return (_MIN,)
        case MaxKey():
            return (_MAX,)
    raise TypeError(f"{type(value).__name__} is no BSON type")


def _field_key(name: str, value: Any) -> Key:
    """Documents compare field by field: type, then name, then value."""
    key = sort_key(value)
    return (key[0], name, key)
