"""A Dramatiq application whose jobs do what their migration's name says, and write down what they did.

Started as ``dramatiq integration.dramatiq_scripted:boot`` with ``BROKER_URL``, ``QUEUE`` and ``DIARY`` (a file).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import dramatiq

from migronaut.core.jobs import CoordinatorJob, Hint, LaneJob, VerifyJob, parse_payload
from migronaut.core.tickets import ContinueLater, Directive, Finish, WaitForLanes
from migronaut_dramatiq import DramatiqQueue
from migronaut_dramatiq.brokers import broker_from_url
from migronaut_dramatiq.declaring import declare

LONG_POLL = 300.0


def coordinator(migration: str, seq: int = 0) -> Hint:
    """A hint for a scripted coordinator."""
    return Hint(id=f"{migration}-{seq}", payload=CoordinatorJob(migration=f"{migration}.py", run="r", seq=seq))


def lane(migration: str, number: int, seq: int = 0) -> Hint:
    """A hint for a scripted lane."""
    payload = LaneJob(migration=f"{migration}.py", run="r", seq=seq, lane=number)
    return Hint(id=f"{migration}-l{number}-{seq}", payload=payload)


class Script:
    """The handler of one process."""

    def __init__(self, queue: DramatiqQueue, diary: Path) -> None:
        self._queue = queue
        self._diary = diary
        self._lock = threading.Lock()
        self._lanes_done = 0

    def handle(self, payload: object, job: Any) -> Directive:
        parsed = parse_payload(payload)
        if isinstance(parsed, VerifyJob):
            self._write("beat")
            return Finish(result="beat")
        directive: Directive = getattr(self, f"_{parsed.migration.removesuffix('.py')}")(parsed)
        return directive

    def _chain(self, job: CoordinatorJob) -> Directive:
        self._write(f"chain {job.seq}")
        if job.seq == 2:
            return Finish(result="end")
        return ContinueLater(delay=0.3, hint=coordinator("chain", job.seq + 1), result="wait")

    def _family(self, job: CoordinatorJob | LaneJob) -> Directive:
        if isinstance(job, LaneJob):
            return self._family_lane(job)
        self._write(f"parent {job.seq}")
        if job.seq:
            return Finish(result="done")
        children = (lane("family", 0), lane("family", 1))
        return WaitForLanes(children=children, hint=coordinator("family", 1), poll=LONG_POLL, result="process")

    def _family_lane(self, job: LaneJob) -> Directive:
        self._write(f"lane {job.lane}")
        with self._lock:
            self._lanes_done += 1
            last = self._lanes_done == 2
        if last:
            self._queue.wake(coordinator("family", 1), None)
        return Finish(result="exhausted")

    def _long(self, job: LaneJob) -> Directive:
        if job.seq:
            self._write("resumed")
            return Finish(result="end")
        self._write("started")
        self._queue.stopping.wait(30)
        self._write(f"told to stop: {self._queue.stopping.reason}")
        return ContinueLater(delay=0.0, hint=lane("long", job.lane, 1), result="stopped")

    def _write(self, line: str) -> None:
        descriptor = os.open(self._diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)


def boot() -> None:
    """Entry for the ``dramatiq`` command."""
    broker = broker_from_url(os.environ["BROKER_URL"])
    dramatiq.set_broker(broker)
    diary = Path(os.environ["DIARY"])
    declare(broker, lambda queue: Script(queue, diary), queue_name=os.environ["QUEUE"], heal_interval=0.3)
