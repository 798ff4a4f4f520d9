"""Time, stopping, and rights that are renewed while work goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Stop(Protocol):
    """A request to stop, looked at wherever stopping is safe."""

    @property
    def reason(self) -> str | None:
        """Why, once set."""

    def is_set(self) -> bool:
        """True once somebody asked to stop."""


class Clock(Protocol):
    """Time as the engine sees it. Staleness is never judged by it: that is the server's clock."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Return after ``seconds``, or as soon as ``stop`` is set."""


class Heartbeat(Protocol):
    """Renews a right in the background while a block of work runs."""

    def beating(self, renew: Callable[[], bool], *, ttl: float) -> AbstractContextManager[Stop]:
        """Call ``renew`` every ttl/2 seconds.

        Returns:
            A context manager whose value is set when ``renew`` answered False, or when no renewal
            succeeded for ttl - min(5, ttl/4) seconds.
        """


UnderWay = Callable[[], None]
"""Called by work that goes on behind: from here on it mostly waits for others, and the processor is free."""


def alone() -> None:
    """The ``UnderWay`` of work beside which nothing goes on."""


class Begin(Protocol):
    """Starts work whose result is needed later."""

    def __call__(self, work: Callable[[UnderWay], T]) -> Callable[[], T]:
        """Start it, and return once it is under way.

        Returns:
            What waits for its result, or raises what it raised.
        """


class WriteBehind(Protocol):
    """Does a lane's writing while the lane reads and transforms its next batch."""

    def open(self) -> AbstractContextManager[Begin]:
        """One piece of work at a time.

        Returns:
            A context manager that waits for what was begun.
        """
