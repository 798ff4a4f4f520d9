"""The stop of a worker, and what a thread does until it comes."""

from __future__ import annotations

import threading


class WorkerStop:
    """Set while the worker of a broker shuts down; a worker that boots later clears it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def reason(self) -> str | None:
        """Why, once set."""
        return "the worker shuts down" if self._event.is_set() else None

    def is_set(self) -> bool:
        """True once the worker shuts down."""
        return self._event.is_set()

    def set(self) -> None:
        """The worker shuts down."""
        self._event.set()

    def clear(self) -> None:
        """A worker boots."""
        self._event.clear()

    def wait(self, seconds: float) -> bool:
        """Wait until set, at most ``seconds``; True when set."""
        return self._event.wait(seconds)
