"""A clock that only tests move: of the worker, and of the database server."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from migronaut.core.ports import Stop

START = datetime(2026, 1, 1)  # noqa: DTZ001 - the ports speak in naive UTC
"""Server time of a new clock."""


class FakeClock:
    """Time that passes only by ``advance`` and ``sleep``.

    Args:
        start: Server time at the beginning, naive UTC.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    def server_now(self) -> datetime:
        """The server's time, naive UTC, whole milliseconds."""
        now = self._start + timedelta(seconds=self._elapsed)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def sleep(self, seconds: float, stop: Stop) -> None:
        """Let ``seconds`` pass at once; none when ``stop`` is set already."""
        if not stop.is_set():
            self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass.

        Raises:
            ValueError: Time never goes back.
        """
        if seconds < 0:
            raise ValueError("time never goes back: advance by 0 or more seconds")
        with self._lock:
            self._elapsed += seconds
