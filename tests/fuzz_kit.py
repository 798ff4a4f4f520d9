"""Hostile input: valid documents with something changed in them, any values, and a mark to find again in errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.objectid import ObjectId
from hypothesis import strategies as st

from migronaut.errors import MigronautError

MARK = "s3cr3t"
"""A piece of every text that is made here; no error may repeat it."""

TEXTS = st.one_of(
    st.sampled_from([MARK, f"mongodb://u:{MARK}@h/?x={MARK}", f"{MARK}\n", f"\0{MARK}", f"{MARK}\ud800", f"{MARK}.py"]),
    st.text(max_size=6).map(lambda text: text + MARK),
    st.text(max_size=3).map(lambda text: MARK * 60 + text),
)
NUMBERS = st.one_of(
    st.sampled_from([-1, 0, 1, 63, 64, 2**31, 2**53, 2**63 - 1, -(2**63), 10**400, True, False, 1.0, -0.0]),
    st.integers(),
    st.floats(),
)
JSON = st.recursive(
    st.none() | NUMBERS | TEXTS | st.just(""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("a"), inner, max_size=3),
    max_leaves=6,
)
STORED_TEXTS = TEXTS.filter(lambda text: "\ud800" not in text and "\0" not in text)
STORED = st.recursive(
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | STORED_TEXTS
    | st.sampled_from(
        [
            "",
            "running",
            True,
            0,
            Int64(1),
            60.0,
            Decimal128("1"),
            datetime(2026, 1, 1),
            ObjectId("0" * 24),
            UUID(int=1),
            MARK.encode(),
            MaxKey(),
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STORED_TEXTS | st.just("a"), inner, max_size=3),
    max_leaves=6,
)
"""Values that can come out of a database."""


@st.composite
def mutated(draw: st.DrawFn, valid: Mapping[str, Any], values: st.SearchStrategy[Any] = JSON) -> dict[str, Any]:
    """A valid document in which one to three things, at any depth, are changed, missing or added."""
    document = _copy(valid)
    for _ in range(draw(st.integers(1, 3))):
        _mutate(draw, document, values)
    return document


def _mutate(draw: st.DrawFn, document: Any, values: st.SearchStrategy[Any]) -> None:
    places = list(_places(document))
    within, key = draw(st.sampled_from(places)) if places else (document, None)
    match draw(st.sampled_from(["change", "change", "remove", "add", "swap"])):
        case "change" if key is not None:
            within[key] = draw(values)
        case "remove" if key is not None:
            del within[key]
        case "swap" if key is not None:
            other, name = draw(st.sampled_from(places))
            within[key] = _copy(other[name])
        case _ if isinstance(within, dict):
            # No name in a database holds a zero byte or half a character.
            names = STORED_TEXTS if values is STORED else TEXTS
            within[draw(st.sampled_from(["$where", f"x{MARK}", "schema", "_id", ""]) | names)] = draw(values)
        case _:
            within.append(draw(values))


def _places(value: Any) -> Any:
    """All places of a document, each as what it is in and its key or index there."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def assert_silent(error: MigronautError, *, chain: bool = True) -> None:
    """The text and the facts of an error repeat no mark, and are one line; nor does what a log shows of its chain."""
    told = f"{error} {error.message} {error.context!r}"
    if chain:
        told += repr(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    assert MARK not in told
    assert "\n" not in error.message
