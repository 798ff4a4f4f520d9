"""same_bson: equality as the server sees it, and as fast types take it."""

from __future__ import annotations

import re
import struct
import uuid
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import nan
from typing import Any

import bson
import pytest
from bson import SON, Binary, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from migronaut.versioning import CODEC, DocumentInvalidError, same_bson

_NOON = datetime(2026, 1, 2, 12)
_UUID = uuid.UUID(int=7)
_OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]


class _ClockBack(tzinfo):
    """A zone whose every reading comes twice, as on the night the clocks go back; needs no time zone data."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment and moment.fold else 2)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "test"


_CLOCK_BACK = _ClockBack()


def _encode(value: object) -> bytes:
    return bson.encode({"": value}, codec_options=CODEC)


_numbers = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53])
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    _numbers,
    _numbers.map(Int64),
    _numbers.map(float),
    st.sampled_from([0.0, -0.0, nan, 0.5]),
    st.sampled_from(["", "a", "1", "é"]),
    st.sampled_from(
        [b"", b"a", Binary(b"a", 0), Binary(b"a", 5), Binary(_UUID.bytes, 4), Binary(_UUID.bytes, 3), _UUID]
    ),
    st.datetimes(datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 3000)),
    st.sampled_from([DatetimeMS(0), DatetimeMS(1), datetime(1970, 1, 1, tzinfo=UTC)]),
    st.sampled_from([ObjectId("0" * 24), ObjectId("1" * 24), MinKey(), MaxKey(), Timestamp(1, 2), Timestamp(2, 1)]),
    st.sampled_from([Decimal128("1"), Decimal128("1.0"), Regex("a", "i"), re.compile("a", re.IGNORECASE), Regex("b")]),
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(SON)
    ),
    max_leaves=6,
)


@given(_values, _values)
def test_equality_is_that_of_the_encoded_bytes(a: Any, b: Any) -> None:
    assert same_bson(a, b) is (_encode(a) == _encode(b))


@given(_values)
def test_two_decodes_of_one_document_are_equal(value: Any) -> None:
    raw = _encode(value)
    assert same_bson(*(bson.decode(raw, codec_options=CODEC)[""] for _ in range(2)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (2**31, Int64(2**31)),
        (nan, -nan),
        (nan, _OTHER_NAN),
        (_NOON, _NOON.replace(tzinfo=UTC)),
        (_NOON, _NOON.replace(microsecond=999)),
        (_NOON.replace(tzinfo=UTC), (_NOON + timedelta(hours=1)).replace(tzinfo=timezone(timedelta(hours=1)))),
        (b"a", Binary(b"a", 0)),
        (_UUID, Binary(_UUID.bytes, 4)),
        ([1, 2], (1, 2)),
        ({"a": 1}, SON(a=1)),
    ],
)
def test_values_that_are_stored_alike_are_equal(a: Any, b: Any) -> None:
    assert same_bson(a, b)
    assert same_bson(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (1, Int64(1)),
        (0.0, -0.0),
        (None, 0),
        (Decimal128("1"), Decimal128("1.0")),
        (_UUID, Binary(_UUID.bytes, 3)),
        (Binary(b"a", 0), Binary(b"a", 5)),
        (_NOON, _NOON + timedelta(milliseconds=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": [1]}, {"a": [1.0]}),
        ({}, []),
        # One wall clock reading, twice on the night the clocks go back.
        (datetime(2026, 10, 25, 2, 30, tzinfo=_CLOCK_BACK), datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=_CLOCK_BACK)),
    ],
)
def test_values_that_are_stored_differently_are_not_equal(a: Any, b: Any) -> None:
    for first, second in ((a, b), (b, a)):
        assert not same_bson(first, second)
        assert not same_bson({"a": [first]}, {"a": [second]})
        assert not same_bson([0, {"a": first}], [0, {"a": second}])


def test_a_value_that_is_no_bson_is_refused_without_being_quoted() -> None:
    with pytest.raises(DocumentInvalidError) as caught:
        same_bson({"a": 1}, {"a": {"secret"}})
    assert caught.value.kind == "not-encodable"
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
