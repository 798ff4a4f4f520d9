"""Background migrations inside a plain synchronous application: a thread that works while the app serves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from migronaut.core.advice import failure_text, mending
from migronaut.core.state import TERMINAL, BackgroundState, Status
from migronaut.engine.drive import advance
from migronaut.engine.speaking import speaking
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundFailedError, redact
from migronaut.migrator import Migrator
from migronaut.spec.raising import is_own

_logger = logging.getLogger("migronaut.runner")


class BackgroundRunner:
    """Works all active background migrations from a daemon thread.

    Any number of processes may run one: leases keep them out of each other's way. Its log says when it starts and
    stops, and how each migration ended that was at work meanwhile, whoever worked it.

    Args:
        migrator: Whose migrations.
        lanes: Threads that work a migration at the same time.
        poll: Seconds between two looks for work.
        verify_interval: Seconds between two looks for drift, once in the whole cluster.
        on_error: Called with what a look raised, and once for each time that a migration fails, with a
            ``BackgroundFailedError`` that says why and what to do; the runner goes on.
    """

    def __init__(
        self,
        migrator: Migrator,
        *,
        lanes: int = 1,
        poll: float = 5.0,
        verify_interval: float = 600.0,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._migrator = migrator
        self._lanes = lanes
        self._poll = poll
        self._verify_interval = verify_interval
        self._on_error = on_error
        self._stop = StopEvent()
        self._thread: threading.Thread | None = None
        self._ended: dict[str, datetime | None] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread; a second call changes nothing."""
        if self._thread is None or not self._thread.is_alive():
            self._stop = StopEvent()
            self._thread = threading.Thread(target=self._loop, name="migronaut-runner", daemon=True)
            self._thread.start()

    def stop(self, timeout: float | None = 60.0) -> bool:
        """Let the current batch end and stop; True when it has, within ``timeout`` seconds."""
        self._stop.set("the application stops")
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        _logger.info("the background runner starts")
        while not self._stop.is_set():
            try:
                self._look()
            except Exception as error:
                _logger.warning("the background runner met %s: %s", type(error).__name__, redact(error))
                self._tell(error)
            self._stop.wait(self._poll)
        _logger.info("the background runner stops: %s", self._stop.reason)

    def _look(self) -> None:
        background = self._migrator.background
        engine = background.engine
        if engine.ports.store.tick("verify", interval=self._verify_interval):
            engine.verify()
        self._follow()
        for name in background.active():
            if not self._stop.is_set():
                advance(engine, name, owner=self._migrator.owner, stop=self._stop, lanes=self._lanes)
                self._follow()

    def _follow(self) -> None:
        """Tell of the migrations that have ended since the last look, here or in another process.

        What ended before the first look is known already.
        """
        with speaking():
            states = self._migrator.background.engine.ports.store.states()
        ended = {state.name: state.finished_at for state in states if state.status in TERMINAL}
        before, self._ended = self._ended, ended
        for state in states:
            if before is not None and state.name in ended and before.get(state.name) != state.finished_at:
                self._tell_end(state)

    def _tell_end(self, state: BackgroundState) -> None:
        if state.status is not Status.FAILED:
            _logger.info("%s is %s%s", state.name, state.status, f"; {state.note}" if state.note else "")
            return
        why = failure_text(state.name, state.last_error, state.errors)
        failure = BackgroundFailedError(
            f"{why} To go on, {mending(state.name, state.last_error)}.", migration=state.name
        )
        _logger.error("%s", failure)
        self._tell(failure)

    def _tell(self, error: Exception) -> None:
        if self._on_error is None:
            return
        try:
            self._on_error(error)
        except BaseException as again:
            if not is_own(again):
                raise
            _logger.warning("on_error raised %s", type(again).__name__)
