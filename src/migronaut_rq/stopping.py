"""How a job learns that its worker shuts down."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from redis import Redis
from redis.exceptions import RedisError
from rq import Worker

POLL = 0.5
"""Seconds between two looks at the worker's record."""

_LOGGER = logging.getLogger("migronaut.rq")


class WorkerStop:
    """Set once the worker of the current job was asked to stop.

    A worker notes the request in Redis and lets its job go on. A supervisor that signals every process
    of a group reaches the job's process as well, whose default is to die at once: inside ``watching`` the
    signal only sets this stop, and then does what it did before.
    """

    def __init__(self, connection: Redis) -> None:
        self._connection = connection
        self._asked = threading.Event()
        self._worker_key: str | None = None
        self._next_look = 0.0

    @property
    def reason(self) -> str | None:
        """Why, once set."""
        return "the worker shuts down" if self._asked.is_set() else None

    def is_set(self) -> bool:
        """True once the worker shuts down; asks Redis at most every half second."""
        if not self._asked.is_set() and self._worker_key and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + POLL
            if self._requested(self._worker_key):
                self._asked.set()
        return self._asked.is_set()

    @contextmanager
    def watching(self, worker_name: str | None) -> Iterator[None]:
        """Watch one worker while its job runs."""
        self._worker_key = f"{Worker.redis_worker_namespace_prefix}{worker_name}" if worker_name else None
        try:
            with self._on_signal():
                yield
        finally:
            self._worker_key = None

    def _requested(self, worker_key: str) -> bool:
        try:
            return bool(self._connection.hexists(worker_key, "shutdown_requested_date"))
        except RedisError as error:
            _LOGGER.debug("The worker's record could not be read (%s).", type(error).__name__)
            return False

    @contextmanager
    def _on_signal(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGTERM)

        def asked(number: int, frame: FrameType | None) -> None:
            """Remember it, and go on with what would have happened."""
            self._asked.set()
            if callable(before):
                before(number, frame)

        signal.signal(signal.SIGTERM, asked)
        try:
            yield
        finally:
            # The worker may have put a handler of its own in place meanwhile, for the second signal.
            if signal.getsignal(signal.SIGTERM) is asked:
                signal.signal(signal.SIGTERM, before)
