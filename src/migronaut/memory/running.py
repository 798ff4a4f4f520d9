"""Heartbeat and writing behind where time stands still: nothing runs beside the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from migronaut.core.ports import Begin, Stop, UnderWay, alone

T = TypeVar("T")


class NeverStop:
    """A stop that nobody sets."""

    reason: str | None = None

    def is_set(self) -> bool:
        """False."""
        return False


class StillHeartbeat:
    """Never beats: a fake clock only moves when the test says so, and no lease runs out by itself."""

    @contextmanager
    def beating(self, renew: Callable[[], bool], *, ttl: float) -> Iterator[Stop]:
        """Give a stop that is never set."""
        yield NeverStop()


class LateWriteBehind:
    """Writes only when the result is asked for, so that what is read ahead is as stale as it can get."""

    @contextmanager
    def open(self) -> Iterator[Begin]:
        """Do what is begun as late as possible, in the same thread."""
        yield _later


def _later(work: Callable[[UnderWay], T]) -> Callable[[], T]:
    return lambda: work(alone)
