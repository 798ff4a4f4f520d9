"""What the suite of the queue port needs from each port, and the processor that it scripts."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from migronaut.core.jobs import CoordinatorJob, Hint, LaneJob, queue_id
from migronaut.core.ports import QueuePort
from migronaut.core.tickets import Directive, Finish
from migronaut.queueing import perform

MIGRATION = "20261004120000_orders.py"
Answer = Callable[[dict[str, Any], Any], Directive]


class Recorder:
    """Stands in for ``BackgroundProcessor``: the port's worker calls ``run``, or ``handle`` and ``perform``.

    ``seen`` holds the payloads in the order they arrived; ``answer`` decides what a job becomes.
    """

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.answer: Answer = lambda payload, job: Finish(result="seen")
        self.port: QueuePort[Any] | None = None
        self._lock = Lock()

    def handle(self, payload: Any, job: Any) -> Directive:
        """Record, then answer as scripted."""
        with self._lock:
            self.seen.append(payload)
        return self.answer(payload, job)

    def run(self, payload: Any, job: Any) -> object:
        """Handle, and do what the directive says."""
        assert self.port is not None
        return perform(self.port, job, self.handle(payload, job))


class QueueHarness(Protocol):
    """One port with a worker of its own, inside the test's process.

    ``keeps_rows`` is True when jobs hold their log rows (then at most 50), False for a stream of log lines.
    """

    keeps_rows: bool

    def make(self, recorder: Recorder) -> QueuePort[Any]:
        """A port on an empty queue whose worker gives every job to ``recorder``; also sets ``recorder.port``."""

    def drain(self, timeout: float = 10.0) -> None:
        """Work until no job is due now; jobs that are due later stay.

        A port on real time must not return while a job that is due is unsent, unread or running; it
        returns before a job that was delayed by 2 s or more is delivered, if nothing else is due.
        """

    def make_due(self, seconds: float) -> None:
        """Let ``seconds`` pass: move a clock, move scheduled jobs, or wait if the library knows only real time."""

    def visible(self) -> str:
        """All log rows and progress that an operator can see, as one text."""


def coordinator_hint(seq: int = 0, *, run: str = "run-1", sends: int = 0) -> Hint:
    """A hint for the coordinator of ``MIGRATION``."""
    id_ = queue_id(MIGRATION, run, lane=None, seq=seq, sends=sends)
    return Hint(id=id_, payload=CoordinatorJob(migration=MIGRATION, run=run, seq=seq))


def lane_hint(lane: int, seq: int = 0, *, run: str = "run-2", sends: int = 0) -> Hint:
    """A hint for one lane of ``MIGRATION``."""
    id_ = queue_id(MIGRATION, run, lane=lane, seq=seq, sends=sends)
    return Hint(id=id_, payload=LaneJob(migration=MIGRATION, run=run, seq=seq, lane=lane))
