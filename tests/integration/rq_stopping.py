"""Workers that are told to stop at the worst moments: ``rq worker -w rq_stopping.StoppedInALog``."""

from __future__ import annotations

import logging
import os
import signal
import time
from typing import Any

import rq.scheduler
import rq.worker.base
from rq_scripted import MigronautWorker

SLOWNESS = 0.7
"""Seconds that a new scheduler takes here until it listens to signals; a busy machine may take that long."""


class QuickScheduler(rq.scheduler.RQScheduler):
    """Ends at once when it is told to."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, interval=0, **settings)


class SlowToListen(MigronautWorker):
    """Its scheduler is slow to start, and quick to end."""

    def work(self, *args: Any, **settings: Any) -> bool:
        """Work."""
        run = rq.scheduler.run

        def slowly(scheduler: rq.scheduler.RQScheduler) -> None:
            """In the process of the scheduler."""
            time.sleep(SLOWNESS)
            run(scheduler)

        rq.scheduler.run = slowly
        rq.worker.base.RQScheduler = QuickScheduler
        return super().work(*args, **settings)


class _SignalInside(logging.Handler):
    """The signal comes while a row is written; what is raised there is reported and forgotten."""

    def __init__(self, *, nth: int) -> None:
        super().__init__()
        self._left = nth

    def emit(self, record: logging.LogRecord) -> None:
        """Write nothing."""
        if "cleaning registries for queue" not in record.getMessage():
            return
        self._left -= 1
        if self._left == 0:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except Exception:
                self.handleError(record)


class StoppedInALog(MigronautWorker):
    """Told to stop while it is idle and writes to its log."""

    def work(self, *args: Any, **settings: Any) -> bool:
        """Work."""
        self.log.addHandler(_SignalInside(nth=3))
        return super().work(*args, **settings)


class StoppedEarly(MigronautWorker):
    """Told to stop the moment its scheduler runs."""

    def _start_scheduler(self, *args: Any, **settings: Any) -> None:
        super()._start_scheduler(*args, **settings)
        os.kill(os.getpid(), signal.SIGTERM)
