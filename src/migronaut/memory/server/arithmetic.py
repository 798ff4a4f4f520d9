"""Numbers of the expression evaluator: int, long and double, with the server's widening and rounding.

Source of the semantics: MongoDB manual, "Arithmetic Expression Operators", and MongoDB 6.0 itself, with which the
project's tests compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import (
    NULL,
    NUMBERS,
    Kind,
    Value,
    double,
    integer,
    is_nullish,
    key,
    long,
    number,
    small,
)

Operator = Callable[[Iterator[Value]], Value]
"""From arguments, each evaluated when it is asked for, to a value."""

_BAD_VALUE, _TYPE_MISMATCH = 2, 14
_ADD_TYPE, _MOD_ZERO, _MOD_TYPE, _ABS_TYPE, _ABS_OVERFLOW = 16554, 16610, 16611, 28765, 28680
_ROUND_TYPE, _PLACE_TYPE, _PLACE_LARGE, _PLACE_BROKEN, _PLACE_RANGE, _ROUND_OVERFLOW = (
    51081,
    16004,
    31109,
    51082,
    51083,
    51080,
)
_WIDTHS = {Kind.INT: 0, Kind.LONG: 1, Kind.DOUBLE: 2}
_DIGITS = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144)


def _fits(whole: int) -> bool:
    return -(2**63) <= whole < 2**63


def _exact(whole: int, kind: Kind) -> Value:
    """An integer as wide as its operands, or wider."""
    return integer(whole) if kind == Kind.INT else long(whole)


def _wider(one: Kind, other: Kind) -> Kind:
    return max(one, other, key=_WIDTHS.__getitem__)


def _two_sum(a: float, b: float) -> tuple[float, float]:
    """A sum and its rounding error. Source: Knuth, The Art of Computer Programming, volume 2, 4.2.2."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


class _Sum:
    """A compensated sum in the order in which the server does it; integers alone are summed exactly."""

    def __init__(self) -> None:
        self.kind = Kind.INT
        self._whole = 0
        self._total = self._rest = self._plain = 0.0

    def add(self, value: Value) -> None:
        """Add an int, a long or a double."""
        found = number(value)
        self.kind = _wider(self.kind, value.kind)
        if isinstance(found, int):
            self._whole += found
        if isinstance(found, float) or value.kind == Kind.INT:
            self._add(float(found))
            return
        # Two doubles hold a long without rounding it.
        high = (abs(found) >> 32 << 32) * (-1 if found < 0 else 1)
        self._add(float(found - high))
        self._add(float(high))

    def rounded(self) -> float:
        """The sum as a double."""
        return self._plain if math.isnan(self._total) else self._total

    def value(self) -> Value:
        """The sum in the type of its operands, or in a wider one."""
        if self.kind == Kind.DOUBLE or not _fits(self._whole):
            return double(self.rounded())
        return _exact(self._whole, self.kind)

    def _add(self, x: float) -> None:
        self._plain += x
        x, rest = _two_sum(x, self._rest)
        self._total, x = _two_sum(self._total, x)
        self._rest = rest + x


def _add(values: Iterator[Value]) -> Value:
    total = _Sum()
    for value in values:
        if is_nullish(value):
            return NULL
        if value.kind == Kind.DATE:
            raise QueryUnsupportedError("arithmetic with dates")
        if value.kind not in NUMBERS:
            raise WriteRefusedError(_ADD_TYPE)
        total.add(value)
    return total.value()


def _pair(values: Iterator[Value], code: int) -> tuple[Value, Value] | None:
    """Two numbers; None when one of them is null."""
    left, right = values
    if is_nullish(left) or is_nullish(right):
        return None
    if left.kind not in NUMBERS or right.kind not in NUMBERS:
        raise WriteRefusedError(code)
    return left, right


def _subtract(values: Iterator[Value]) -> Value:
    left, right = values
    if left.kind == Kind.DATE and not is_nullish(right):
        raise QueryUnsupportedError("arithmetic with dates")
    pair = _pair(iter((left, right)), _TYPE_MISMATCH)
    if pair is None:
        return NULL
    kind = _wider(left.kind, right.kind)
    difference = number(left) - number(right)
    if isinstance(difference, int) and _fits(difference):
        return _exact(difference, kind)
    return double(float(number(left)) - float(number(right)))


def _multiply(values: Iterator[Value]) -> Value:
    kind, whole, rough = Kind.INT, 1, 1.0
    for value in values:
        if is_nullish(value):
            return NULL
        if value.kind not in NUMBERS:
            raise WriteRefusedError(_TYPE_MISMATCH)
        factor = number(value)
        kind = _wider(kind, value.kind)
        rough *= float(factor)
        if isinstance(factor, int):
            whole *= factor
            kind = kind if _fits(whole) else Kind.DOUBLE
    return double(rough) if kind == Kind.DOUBLE else _exact(whole, kind)


def _divide(values: Iterator[Value]) -> Value:
    pair = _pair(values, _TYPE_MISMATCH)
    if pair is None:
        return NULL
    divisor = float(number(pair[1]))
    if divisor == 0:
        raise WriteRefusedError(_BAD_VALUE)
    return double(float(number(pair[0])) / divisor)


def _mod(values: Iterator[Value]) -> Value:
    pair = _pair(values, _MOD_TYPE)
    if pair is None:
        return NULL
    left, right = number(pair[0]), number(pair[1])
    if right == 0:
        raise WriteRefusedError(_MOD_ZERO)
    # A double without a fraction divides an integer as an integer.
    if isinstance(left, float) or (isinstance(right, float) and (math.isnan(right) or small(pair[1]) is None)):
        return double(_float_mod(float(left), float(right)))
    rest = abs(left) % abs(int(right))
    wide = Kind.LONG in {pair[0].kind, pair[1].kind}
    return _exact(-rest if left < 0 else rest, Kind.LONG if wide else Kind.INT)


def _float_mod(left: float, right: float) -> float:
    # What C computes for an infinity, and Python refuses.
    return left - left if math.isinf(left) and not math.isnan(right) else math.fmod(left, right)


def _abs(values: Iterator[Value]) -> Value:
    (value,) = values
    if is_nullish(value):
        return NULL
    if value.kind not in NUMBERS:
        raise WriteRefusedError(_ABS_TYPE)
    found = number(value)
    if isinstance(found, float):
        return double(abs(found))
    if not _fits(abs(found)):
        raise WriteRefusedError(_ABS_OVERFLOW)
    return _exact(abs(found), value.kind)


def _rounding(mode: str) -> Operator:
    def round_(values: Iterator[Value]) -> Value:
        """The number at a place of digits."""
        value = next(values)
        if is_nullish(value):
            return NULL
        if value.kind not in NUMBERS:
            raise WriteRefusedError(_ROUND_TYPE)
        digits = next(values, integer(0))
        return NULL if is_nullish(digits) else _rounded(value, _place(digits), mode)

    return round_


def _place(value: Value) -> int:
    """The decimal place to which a number is rounded."""
    if value.kind not in NUMBERS:
        raise WriteRefusedError(_PLACE_TYPE)
    if not -(2**63) <= number(value) < 2**63:
        raise WriteRefusedError(_PLACE_LARGE)
    place = small(value)
    if place is None:
        raise WriteRefusedError(_PLACE_BROKEN)
    if not -20 <= place <= 100:
        raise WriteRefusedError(_PLACE_RANGE)
    return place


def _rounded(value: Value, place: int, mode: str) -> Value:
    found = number(value)
    if (isinstance(found, int) and place >= 0) or not math.isfinite(found):
        return value
    unit = Decimal((0, (1,), -place))
    try:
        exact = _DIGITS.create_decimal_from_float(found) if isinstance(found, float) else Decimal(found)
        result = exact.quantize(unit, rounding=mode, context=_DIGITS)
    except InvalidOperation:
        # It has no digits at that place.
        return value
    if isinstance(found, float):
        return double(float(result))
    if not _fits(int(result)):
        raise WriteRefusedError(_ROUND_OVERFLOW)
    return _exact(int(result), value.kind)


def _sum(values: Iterator[Value]) -> Value:
    total = _Sum()
    for value in values:
        if value.kind in NUMBERS:
            total.add(value)
    return total.value()


def _avg(values: Iterator[Value]) -> Value:
    total, count = _Sum(), 0
    for value in values:
        if value.kind in NUMBERS:
            total.add(value)
            count += 1
    return double(total.rounded() / count) if count else NULL


def _extreme(choose: Callable[..., Value]) -> Operator:
    def extreme(values: Iterator[Value]) -> Value:
        """The chosen one of what is there."""
        there = [value for value in values if not is_nullish(value)]
        return choose(there, key=key) if there else NULL

    return extreme


ARITHMETIC: Mapping[str, tuple[int, int | None, Operator]] = {
    "$add": (0, None, _add),
    "$subtract": (2, 2, _subtract),
    "$multiply": (0, None, _multiply),
    "$divide": (2, 2, _divide),
    "$mod": (2, 2, _mod),
    "$abs": (1, 1, _abs),
    "$round": (1, 2, _rounding(ROUND_HALF_EVEN)),
    "$trunc": (1, 2, _rounding(ROUND_DOWN)),
}
"""Operators by name, with the least and the greatest number of their arguments."""

ACCUMULATORS: Mapping[str, Operator] = {
    "$sum": _sum,
    "$avg": _avg,
    "$min": _extreme(min),
    "$max": _extreme(max),
}
"""Operators on the elements of one array, or on any number of arguments."""
