"""Conversions between types and operators on texts, of the expression evaluator."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.arithmetic import Operator
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import (
    NULL,
    NUMBERS,
    Kind,
    Value,
    array,
    boolean,
    characters,
    double,
    encoded,
    integer,
    is_nullish,
    is_true,
    long,
    milliseconds,
    number,
    small,
    text,
)

_CONVERSION, _DATE_RANGE, _TEXT_TYPE, _CONCAT_TYPE = 241, 18537, 16007, 16702
_SPLIT_TEXT, _SPLIT_SEPARATOR, _SPLIT_EMPTY = 40085, 40086, 40087
_START_TYPE, _START_BROKEN, _LENGTH_TYPE, _LENGTH_BROKEN, _LENGTH_NEGATIVE, _START_NEGATIVE = range(34450, 34456)
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_FLOAT = re.compile(rb"[+-]?((([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)|inf(inity)?)", re.IGNORECASE)
_LIMITS = {Kind.INT: 2**31, Kind.LONG: 2**63}


def _to_integer(kind: Kind) -> Operator:
    limit = _LIMITS[kind]

    def convert(values: Iterator[Value]) -> Value:
        """The value as a whole number of that kind."""
        (value,) = values
        if is_nullish(value):
            return NULL
        whole = _whole(value, dates=kind == Kind.LONG)
        # A fraction is cut only after the range was checked.
        if not -limit <= whole <= limit - 1:
            raise WriteRefusedError(_CONVERSION)
        return integer(int(whole)) if kind == Kind.INT else long(int(whole))

    return convert


def _whole(value: Value, *, dates: bool) -> int | float:
    if value.kind in NUMBERS:
        found = number(value)
        if math.isfinite(found):
            return found
    elif value.kind == Kind.BOOL:
        return int(is_true(value))
    elif value.kind == Kind.STRING:
        digits = characters(value)
        if len(digits) > 400:
            raise QueryUnsupportedError("conversions of very long texts")
        if _INTEGER.fullmatch(digits):
            return int(digits)
    elif value.kind == Kind.DATE and dates:
        return milliseconds(value)
    raise WriteRefusedError(_CONVERSION)


def _to_double(values: Iterator[Value]) -> Value:
    (value,) = values
    if is_nullish(value):
        return NULL
    if value.kind in NUMBERS:
        return double(float(number(value)))
    if value.kind == Kind.BOOL:
        return double(float(is_true(value)))
    if value.kind == Kind.DATE:
        return double(float(milliseconds(value)))
    if value.kind == Kind.STRING:
        return double(_parsed(characters(value)))
    raise WriteRefusedError(_CONVERSION)


def _parsed(digits: bytes) -> float:
    if b"nan" in digits.lower():
        raise QueryUnsupportedError("conversions of NaN in a text")
    if not _FLOAT.fullmatch(digits):
        raise WriteRefusedError(_CONVERSION)
    found = float(digits)
    mantissa = digits.lower().partition(b"e")[0]
    too_small = abs(found) < sys.float_info.min and re.search(rb"[1-9]", mantissa)
    if too_small or (math.isinf(found) and b"n" not in digits.lower()):
        raise WriteRefusedError(_CONVERSION)
    return found


def _to_bool(values: Iterator[Value]) -> Value:
    (value,) = values
    return NULL if is_nullish(value) else boolean(is_true(value))


def _to_string(values: Iterator[Value]) -> Value:
    (value,) = values
    if is_nullish(value):
        return NULL
    if value.kind == Kind.BOOL:
        return text(b"true" if is_true(value) else b"false")
    if value.kind == Kind.OBJECT_ID:
        return text(encoded(value).hex().encode())
    if value.kind == Kind.DOUBLE and not math.isfinite(number(value)):
        found = number(value)
        return text(b"NaN" if math.isnan(found) else b"Infinity" if found > 0 else b"-Infinity")
    return text(_written(value, _CONVERSION))


def _written(value: Value, code: int) -> bytes:
    """A text, a number or a date as text.

    Raises:
        WriteRefusedError: Another type, with ``code``; a date that has no four digits for its year.
    """
    if value.kind == Kind.STRING:
        return characters(value)
    if value.kind == Kind.DATE:
        return _iso(milliseconds(value))
    if value.kind == Kind.DOUBLE and math.isnan(number(value)):
        raise QueryUnsupportedError("NaN as a text")
    if value.kind in NUMBERS:
        # The server writes six significant digits of a double.
        found = number(value)
        return (f"{found:g}" if isinstance(found, float) else str(found)).encode()
    if value.kind in {Kind.TIMESTAMP, Kind.CODE, Kind.SYMBOL} and code == _TEXT_TYPE:
        raise QueryUnsupportedError(f"values of type {value.kind.name} as a text")
    raise WriteRefusedError(code)


def _iso(since: int) -> bytes:
    if not -62167219200000 <= since < 253402300800000:
        raise WriteRefusedError(_DATE_RANGE)
    if since < -62135596800000:
        raise QueryUnsupportedError("the year 0 as a text")
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=since)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _coerced(value: Value) -> bytes:
    """A text as most operators on texts take it: nothing is an empty one."""
    return b"" if is_nullish(value) else _written(value, _TEXT_TYPE)


def _to_lower(values: Iterator[Value]) -> Value:
    (value,) = values
    return text(_coerced(value).lower())


def _to_upper(values: Iterator[Value]) -> Value:
    (value,) = values
    return text(_coerced(value).upper())


def _concat(values: Iterator[Value]) -> Value:
    parts = []
    for value in values:
        if is_nullish(value):
            return NULL
        if value.kind != Kind.STRING:
            raise WriteRefusedError(_CONCAT_TYPE)
        parts.append(characters(value))
    return text(b"".join(parts))


def _substring(values: Iterator[Value]) -> Value:
    value, start, length = values
    whole = _coerced(value)
    first = _whole_number(start, _START_TYPE, _START_BROKEN)
    count = _whole_number(length, _LENGTH_TYPE, _LENGTH_BROKEN)
    if count < 0:
        raise WriteRefusedError(_LENGTH_NEGATIVE)
    if first < 0:
        raise WriteRefusedError(_START_NEGATIVE)
    try:
        points = whole.decode()
    except UnicodeDecodeError as error:
        raise QueryUnsupportedError("texts that are no UTF-8") from error
    return text(points[first : first + count].encode())


def _whole_number(value: Value, type_code: int, code: int) -> int:
    if value.kind not in NUMBERS:
        raise WriteRefusedError(type_code)
    found = small(value)
    if found is None:
        raise WriteRefusedError(code)
    return found


def _split(values: Iterator[Value]) -> Value:
    value, separator = values
    if is_nullish(value) or is_nullish(separator):
        return NULL
    if value.kind != Kind.STRING:
        raise WriteRefusedError(_SPLIT_TEXT)
    if separator.kind != Kind.STRING:
        raise WriteRefusedError(_SPLIT_SEPARATOR)
    if not characters(separator):
        raise WriteRefusedError(_SPLIT_EMPTY)
    return array(text(part) for part in characters(value).split(characters(separator)))


CONVERSIONS: Mapping[str, tuple[int, int | None, Operator]] = {
    "$toInt": (1, 1, _to_integer(Kind.INT)),
    "$toLong": (1, 1, _to_integer(Kind.LONG)),
    "$toDouble": (1, 1, _to_double),
    "$toBool": (1, 1, _to_bool),
    "$toString": (1, 1, _to_string),
    "$toLower": (1, 1, _to_lower),
    "$toUpper": (1, 1, _to_upper),
    "$concat": (0, None, _concat),
    "$substrCP": (3, 3, _substring),
    "$split": (2, 2, _split),
}
"""Operators by name, with the least and the greatest number of their arguments."""
