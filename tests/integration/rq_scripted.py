"""A worker whose jobs follow a script, for real worker processes: ``rq worker -w rq_scripted.MigronautWorker``.

The ``run`` of a payload names the script. What happens is told through the list ``told`` in Redis.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from rq.job import Job

from migronaut.core.jobs import Hint
from migronaut.core.tickets import ContinueLater, Directive, Finish, WaitForLanes
from migronaut.testing.contracts import coordinator_hint, lane_hint
from migronaut_rq import MigronautWorker, RqQueue, jobs

__all__ = ["MigronautWorker"]

FAR = 300.0


def _deadline() -> float:
    return time.monotonic() + 60.0


class Scripted:
    """Stands in for ``BackgroundProcessor``, inside the process that RQ forked for the job."""

    def __init__(self, port: RqQueue) -> None:
        self._port = port
        self._deliveries = 0

    def handle(self, payload: Any, job: Job) -> Directive:
        """Tell that the job arrived, then do what its run is named after."""
        # Counted before it is told: a test may kill this process as soon as it knows of it.
        self._deliveries = job.connection.hincrby("deliveries", job.id, 1)
        told = {"payload": payload, "job": job.id, "pid": os.getpid()}
        job.connection.rpush("told", json.dumps(told))
        script = str(payload.get("run", "finish")).replace("-", "_")
        directive: Directive = getattr(self, f"_{script}")(payload, job)
        return directive

    def _finish(self, payload: Any, job: Job) -> Directive:
        return Finish(result="finished")

    def _until_stopped(self, payload: Any, job: Job) -> Directive:
        """A lane between two batches."""
        end = _deadline()
        while not self._port.stopping.is_set() and time.monotonic() < end:
            time.sleep(0.01)
        reason = self._port.stopping.reason or "nobody asked"
        return ContinueLater(delay=FAR, hint=_next(payload), result=reason)

    def _hang(self, payload: Any, job: Job) -> Directive:
        """The first delivery never returns."""
        if self._deliveries > 1:
            return Finish(result="finished")
        time.sleep(_deadline() - time.monotonic())
        return Finish(result="nobody killed this")

    def _park(self, payload: Any, job: Job) -> Directive:
        if payload["seq"] == 1:
            return Finish(result="woken")
        return WaitForLanes(children=(), hint=coordinator_hint(1, run="park"), poll=FAR, result="process")

    def _overtime(self, payload: Any, job: Job) -> Directive:
        """A slice that RQ interrupts: the processor counts it and goes on."""
        if payload["seq"] == 1:
            return Finish(result="finished")
        try:
            time.sleep(_deadline() - time.monotonic())
        except Exception as error:
            return ContinueLater(delay=0.0, hint=_next(payload), result="raised", error=error)
        return Finish(result="nobody interrupted this")


def _next(payload: dict[str, Any]) -> Hint:
    return lane_hint(payload["lane"], payload["seq"] + 1, run=payload["run"])


jobs.handler = Scripted
