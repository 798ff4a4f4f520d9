"""Checks of single settings: each takes what the user gave and returns the plain value, or refuses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from attrs import asdict

from migronaut.core.state import Guard, Partitioning

Check = Callable[[Any], Any]

_MAX_NAME_BYTES = 255
_MAX_INT64 = 2**63 - 1
_OWN_PREFIX = "_migronaut"
_PLACEHOLDER = "TODO"


class RefusedError(ValueError):
    """One setting cannot be used; the text completes the sentence "<setting> …"."""


def whole_number(low: int, high: int = _MAX_INT64) -> Check:
    """Accept an int (no bool) from ``low`` to ``high``."""
    wanted = f"from {low} to {high}" if high < _MAX_INT64 else f"of at least {low}"

    def check(value: object) -> int:
        """Accept a whole number in the range."""
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise RefusedError(f"must be a whole number {wanted}, not {_shown(value)}")
        return value

    return check


def seconds(low: float, high: float) -> Check:
    """Accept seconds (int, float) or a timedelta from ``low`` to ``high`` seconds."""

    def check(value: object) -> float:
        """Accept a duration in the range."""
        plain = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(plain, bool) or not isinstance(plain, int | float) or not low <= plain <= high:
            raise RefusedError(f"must be seconds or a timedelta from {low:g} to {high:g} s, not {_shown(value)}")
        return float(plain)

    return check


def optional(check: Check) -> Check:
    """Let None through, for a setting that may be absent."""
    return lambda value: None if value is None else check(value)


def text(value: object) -> str:
    """Accept a description.

    Raises:
        RefusedError: It is no text.
    """
    if not isinstance(value, str):
        raise RefusedError(f"must be text, not {type(value).__name__}")
    return value.strip()


def collection_name(value: object) -> str:
    """Accept the name of a collection of the user's.

    Raises:
        RefusedError: It is no such name, the placeholder of the template, MongoDB's own or ours.
    """
    if not isinstance(value, str) or not value:
        raise RefusedError("must be the name of a collection")
    if value == _PLACEHOLDER:
        raise RefusedError(f"is still the placeholder {_PLACEHOLDER!r}; put the name of your collection there")
    if value.startswith("system."):
        raise RefusedError("must not start with 'system.'; those collections belong to MongoDB")
    if value.startswith(_OWN_PREFIX):
        raise RefusedError(f"must not start with {_OWN_PREFIX!r}; those collections belong to migronaut")
    if not _is_namespace_part(value):
        raise RefusedError("is not a name that MongoDB accepts: no '$', no NUL, no dot at an end, no '..'")
    return value


def _is_namespace_part(name: str) -> bool:
    fits = len(name.encode("utf-8", "replace")) <= _MAX_NAME_BYTES and _is_encodable(name)
    return fits and not ("$" in name or "\0" in name or ".." in name or name[0] == "." or name[-1] == ".")


def _is_encodable(name: str) -> bool:
    """A lone surrogate is text to Python, but no UTF-8 and so no name."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def field_name(value: object) -> str:
    """Accept the name of a top-level field that migronaut keeps in the user's documents.

    Raises:
        RefusedError: It is no such name, or one that cannot be written.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= 64 or not _is_encodable(value):
        raise RefusedError("must be a field name of 1 to 64 characters")
    if any(character in value for character in "$.\0"):
        raise RefusedError("must be a top-level field without '$', dot or NUL")
    if value in ("_id", "__proto__"):
        raise RefusedError(f"must not be {value!r}")
    return value


def guard(value: object) -> Guard:
    """Accept a guard or its name.

    Raises:
        RefusedError: There is no such guard.
    """
    try:
        return Guard(value)  # type: ignore[arg-type]
    except ValueError:
        raise RefusedError(_one_of(Guard)) from None


def _one_of(choices: type[StrEnum]) -> str:
    return "must be one of " + ", ".join(repr(choice.value) for choice in choices)


_WRITE_CONCERN: Mapping[str, Callable[[object], bool]] = {
    "w": lambda w: (isinstance(w, str) and bool(w)) or (type(w) is int and 1 <= w <= 50),
    "j": lambda j: isinstance(j, bool),
    "wtimeout": lambda ms: type(ms) is int and ms >= 0,
}


def write_concern(value: object) -> Mapping[str, Any]:
    """Accept a write concern document; without ``w`` it is ``"majority"``.

    Raises:
        RefusedError: It is no write concern, or does not acknowledge (``w: 0``).
    """
    if not isinstance(value, Mapping) or not set(value) <= set(_WRITE_CONCERN):
        raise RefusedError("must be a mapping with w, j or wtimeout, e.g. {'w': 'majority'}")
    if type(value.get("w")) is int and value["w"] == 0:
        raise RefusedError("must not be w: 0; unacknowledged writes cannot be counted")
    wrong = [key for key, item in value.items() if not _WRITE_CONCERN[key](item)]
    if wrong:
        raise RefusedError(
            f"has an unusable value for {', '.join(wrong)}; w is text or 1 to 50, j a bool, wtimeout whole milliseconds"
        )
    return {"w": "majority", **value}


_PARTITIONING: Mapping[str, Check] = {
    "over_partition": whole_number(1, 64),
    "max_partitions": whole_number(1, 4096),
    "min_documents": optional(whole_number(1)),
    "sample_size": optional(whole_number(1, 100_000)),
}


def partitions(value: object) -> Partitioning:
    """Accept a Partitioning whose numbers are in range.

    Raises:
        RefusedError: It is something else, or numbers are out of range; all of them are named.
    """
    if not isinstance(value, Partitioning):
        raise RefusedError(f"must be Partitioning(...), not {type(value).__name__}")
    problems = []
    for name, item in asdict(value).items():
        try:
            _PARTITIONING[name](item)
        except RefusedError as refused:
            problems.append(f"{name} {refused}")
    if problems:
        raise RefusedError("has a problem: " + "; ".join(problems))
    return value


def _shown(value: object) -> str:
    """Numbers are shown; anything else could hold data and is only named."""
    if isinstance(value, int) and abs(value) > _MAX_INT64:
        return "a number that long"
    return str(value) if isinstance(value, int | float | timedelta) else type(value).__name__
