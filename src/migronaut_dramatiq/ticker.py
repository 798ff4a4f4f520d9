"""The beat: a thread that looks for lost work, whatever became of the messages about it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from migronaut.errors import redact

_LOGGER = logging.getLogger("migronaut.dramatiq")


class Ticker:
    """Calls ``beat`` at once and then every ``interval`` seconds, from a thread of its own.

    It calls, and does not send a message: a broker that came back empty, or that holds on to its delayed
    messages, must not be able to stop what repairs it.
    """

    NAME = "migronaut-dramatiq-ticker"

    def __init__(self, beat: Callable[[], object], *, interval: float) -> None:
        self._beat = beat
        self._interval = interval
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; does nothing while it runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._ended,), name=self.NAME, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask the thread to end after the beat it is in."""
        self._ended.set()

    def join(self, timeout: float) -> None:
        """Wait for the thread, at most ``timeout`` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._beat()
            except Exception as error:  # the thread must outlive every trouble of a beat
                _LOGGER.warning(
                    "The search for lost work failed and is tried again in %g s: %s: %s",
                    self._interval,
                    type(error).__name__,
                    redact(error),
                )
            ended.wait(self._interval)
