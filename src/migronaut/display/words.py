"""Numbers, durations and values as people and machines read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from attrs import fields, has

from migronaut.core.progress import Progress
from migronaut.core.wording import plural

__all__ = ["amount", "duration", "number", "pace", "plain", "plural", "time_left"]

_ALL = 100
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def number(value: int) -> str:
    """12345 as ``12 345``."""
    return f"{value:,}".replace(",", " ")


def duration(seconds: float) -> str:
    """Two units at most: ``3 min 20 s``."""
    left = round(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def amount(progress: Progress) -> str:
    """``N of M``, or what is known of it."""
    if progress.estimate is None:
        return f"{number(progress.done)} migrated, more not planned yet" if progress.done else "not planned yet"
    if progress.percent >= _ALL:
        return f"{number(progress.done)} migrated"
    least = "at least " if progress.at_least else ""
    return f"{number(progress.done)} of {least}{number(progress.estimate)}"


def pace(progress: Progress) -> str:
    """Documents a second, or nothing."""
    return f"{number(round(progress.rate))} docs/s" if progress.rate else ""


def time_left(progress: Progress) -> str:
    """The ETA as a range, or why there is none."""
    if progress.eta_low is None:
        return progress.note or ""
    if progress.eta_high is None:
        return f"at least {duration(progress.eta_low)} left"
    low, high = duration(progress.eta_low), duration(progress.eta_high)
    return f"{low} left" if low == high else f"{low} to {high} left"


def plain(value: Any) -> Any:
    """A value as plain JSON: frozen values become objects, times ISO 8601 in UTC."""
    if has(type(value)):
        return {field.name: plain(getattr(value, field.name)) for field in fields(type(value))}
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return utc.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
