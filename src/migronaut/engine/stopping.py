"""Stopping and time on real threads: an event with a reason, the system clock, the heartbeat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from migronaut.core.ports import Stop


class LeftToStopError(Exception):
    """A function of the user's raised while its lane was to stop: the batch is left as it was."""


class StopEvent:
    """A request to stop, with its reason; the first reason stands."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why, once set."""
        return self._reason

    def is_set(self) -> bool:
        """True once somebody asked to stop."""
        return self._event.is_set()

    def set(self, reason: str) -> None:
        """Ask to stop."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait until set, at most ``seconds``; True when set."""
        return self._event.wait(seconds)


class AnyStop:
    """Set as soon as one of several stops is."""

    def __init__(self, *stops: Stop) -> None:
        self._stops = stops

    @property
    def reason(self) -> str | None:
        """The reason of the first one that is set."""
        return next((stop.reason for stop in self._stops if stop.is_set()), None)

    def is_set(self) -> bool:
        """True once any of them is set."""
        return any(stop.is_set() for stop in self._stops)


_LOOK = 0.05
"""Seconds between two looks at a stop that is not one event."""


class SystemClock:
    """The clock of the process."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Return after ``seconds``, or soon after ``stop`` is set."""
        if isinstance(stop, StopEvent):
            stop.wait(seconds)
            return
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))


class ThreadHeartbeat:
    """Renews from a thread of its own, so that a long transform does not lose the lease."""

    @contextmanager
    def beating(self, renew: Callable[[], bool], *, ttl: float) -> Iterator[Stop]:
        """Call ``renew`` every ttl/2 seconds; the value is set once the right counts as lost."""
        lost, ended = StopEvent(), StopEvent()
        thread = threading.Thread(target=_beat, args=(renew, ttl, lost, ended), name="migronaut-heartbeat", daemon=True)
        try:
            # Inside: what a signal raises here must not leave it beating for ever.
            thread.start()
            yield lost
        finally:
            ended.set("ended")
            if thread.ident is not None:
                thread.join()


def _beat(renew: Callable[[], bool], ttl: float, lost: StopEvent, ended: StopEvent) -> None:
    """Renew until ended; give up before anybody else may take over."""
    last = time.monotonic()
    patience = ttl - min(5.0, ttl / 4)
    wait = ttl / 2
    while not ended.wait(wait):
        started = time.monotonic()
        try:
            alive = renew()
        except Exception:
            # The database is away, or refuses us: try again soon, until nobody may assume that the right is still ours.
            wait = min(1.0, ttl / 20)
            if time.monotonic() - last >= patience:
                lost.set("no renewal got through")
                return
            continue
        if not alive:
            lost.set("taken away")
            return
        last, wait = started, ttl / 2
