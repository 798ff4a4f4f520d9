"""A queue in memory: complete, deterministic, and as unreliable as a test wants it.

Jobs run one at a time, in the order they become due, on a clock that a test moves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import count
from typing import Any

from attrs import define, field, frozen

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.core.ports import Clock
from migronaut.core.tickets import ContinueLater, WaitForLanes
from migronaut.errors import QueueJobInvalidError
from migronaut.queueing.rows import MAX_ROWS, row
from migronaut.queueing.sending import Handler, perform


class JobStatus(StrEnum):
    """Where a job of the memory queue stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@define(eq=False, kw_only=True)
class MemoryJob:
    """One job, as a dashboard would show it.

    Args:
        due: Seconds on the queue's clock.
        order: Jobs that are due at the same time run in this order.
        runs: How often it was delivered.
        result: The last directive's result.
        error: What the last run was refused with, or what its slice raised.
    """

    id: str
    payload: dict[str, Any]
    due: float
    order: int
    status: JobStatus = JobStatus.WAITING
    runs: int = 0
    result: str | None = None
    error: BaseException | None = None
    log: list[str] = field(factory=list)
    progress: dict[str, Any] = field(factory=dict)


class MemoryStop:
    """A stop that a test sets and clears."""

    def __init__(self) -> None:
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why, once set."""
        return self._reason

    def is_set(self) -> bool:
        """True once set."""
        return self._reason is not None

    def set(self, reason: str = "the worker shuts down") -> None:
        """Ask to stop."""
        self._reason = reason

    def clear(self) -> None:
        """Go on as a new worker."""
        self._reason = None


def every(nth: int) -> Callable[[Hint], bool]:
    """A fault's predicate: true for every ``nth`` hint it is asked about."""
    asked = count(1)
    return lambda hint: next(asked) % nth == 0


def _never(hint: Hint) -> bool:
    return False


def _at_once(hint: Hint) -> float:
    return 0.0


def _in_order(jobs: Sequence[MemoryJob]) -> int:
    return 0


@frozen(kw_only=True)
class Faults:
    """What goes wrong between sending a hint and delivering it. Without arguments: nothing.

    Args:
        drop: The hint is never delivered.
        duplicate: It is delivered twice.
        delay: It is delivered this many seconds late.
        pick: Which of the jobs that are due runs next: an index into them.
    """

    drop: Callable[[Hint], bool] = _never
    duplicate: Callable[[Hint], bool] = _never
    delay: Callable[[Hint], float] = _at_once
    pick: Callable[[Sequence[MemoryJob]], int] = _in_order


class MemoryQueue:
    """A ``QueuePort[MemoryJob]`` together with its one worker.

    Args:
        clock: When jobs are due, e.g. a ``FakeClock``.
        faults: May be replaced at any time.
    """

    def __init__(self, clock: Clock, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._clock = clock
        self._jobs: list[MemoryJob] = []
        self._orders = count()
        self._beats = count(1)
        self._stopping = MemoryStop()
        self._handler: Handler[MemoryJob] | None = None

    def bind(self, handler: Handler[MemoryJob]) -> None:
        """Let ``handler``, usually a ``BackgroundProcessor``, do the jobs."""
        self._handler = handler

    @property
    def jobs(self) -> tuple[MemoryJob, ...]:
        """Every job there ever was, in the order of sending."""
        return tuple(self._jobs)

    # ----------------------------------------------------------------- the port

    @property
    def stopping(self) -> MemoryStop:
        """Set it to see what jobs do in a worker that shuts down."""
        return self._stopping

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send hints as new jobs, due now."""
        for hint in hints:
            self._send(hint, self._new(hint.id, hint), delay=0.0)

    def continue_later(self, job: MemoryJob, directive: ContinueLater) -> None:
        """Give the job its next payload, due after the delay."""
        self._send(directive.hint, job, delay=directive.delay)

    def wait_for_lanes(self, job: MemoryJob, directive: WaitForLanes) -> None:
        """Send the children, then keep the job until its poll."""
        self.enqueue(directive.children)
        self._send(directive.hint, job, delay=directive.poll)

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Make the job ``ref`` due now; a new job when the queue has lost it."""
        waiting = [job for job in self._waiting() if job.id == ref]
        if not waiting:
            self.enqueue([hint])
        elif not self.faults.drop(hint):
            waiting[0].due = self._clock.monotonic() + self.faults.delay(hint)

    def annotate(self, job: MemoryJob, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Keep the last 50 rows, and the progress as given."""
        if not isinstance(job, MemoryJob):
            return
        if log is not None:
            job.log = [*job.log, row(log)][-MAX_ROWS:]
        if progress is not None:
            job.progress.update(progress)

    # ----------------------------------------------------------------- the worker

    def beat(self) -> None:
        """Send a verify hint, as each worker process does from time to time."""
        self.enqueue([Hint(id=f"migronaut-beat-{next(self._beats)}", payload=VerifyJob())])

    def run_one(self) -> MemoryJob | None:
        """Run the next job that is due now; None when none is."""
        due = [job for job in self._waiting() if job.due <= self._clock.monotonic()]
        if not due:
            return None
        job = due[self.faults.pick(due)]
        self._run(job)
        return job

    def run_due(self, *, limit: int = 10_000) -> int:
        """Run all that is due now, and what becomes due by that; the number of jobs run.

        Raises:
            RuntimeError: ``limit`` jobs ran and there is still one.
        """
        return self._run_while(lambda: False, limit=limit)

    def run_until_idle(self, *, limit: int = 10_000) -> int:
        """Run everything, moving the clock to whatever is due next; the number of jobs run.

        Raises:
            RuntimeError: ``limit`` jobs ran and there is still one, e.g. of a blocked migration.
        """
        return self._run_while(self._skip, limit=limit)

    def restart_empty(self) -> None:
        """Forget every waiting job, as a broker without persistence does."""
        for job in self._waiting():
            job.status = JobStatus.LOST

    def _run_while(self, more: Callable[[], bool], *, limit: int) -> int:
        for ran in range(limit):
            while self.run_one() is None:
                if not more():
                    return ran
        raise RuntimeError(f"{limit} jobs ran and the queue is still busy")

    def _skip(self) -> bool:
        waiting = self._waiting()
        if waiting:
            self._clock.sleep(waiting[0].due - self._clock.monotonic(), MemoryStop())
        return bool(waiting)

    def _waiting(self) -> list[MemoryJob]:
        waiting = [job for job in self._jobs if job.status is JobStatus.WAITING]
        return sorted(waiting, key=lambda job: (job.due, job.order))

    def _run(self, job: MemoryJob) -> None:
        if self._handler is None:
            raise RuntimeError("bind() a processor before running jobs")
        job.status, job.runs, job.error = JobStatus.RUNNING, job.runs + 1, None
        try:
            directive = self._handler.handle(dict(job.payload), job)
        except QueueJobInvalidError as error:
            job.status, job.error = JobStatus.FAILED, error
            return
        except BaseException:
            # A test that kills the worker: the job is gone, as from a real one.
            job.status = JobStatus.LOST
            raise
        job.result, job.error = directive.result, directive.error
        perform(self, job, directive)
        if job.status is JobStatus.RUNNING:
            job.status = JobStatus.FINISHED

    def _new(self, id_: str, hint: Hint) -> MemoryJob:
        job = MemoryJob(id=id_, payload=hint.body(), due=0.0, order=0, status=JobStatus.LOST)
        self._jobs.append(job)
        return job

    def _send(self, hint: Hint, job: MemoryJob, *, delay: float) -> None:
        if self.faults.drop(hint):
            job.status = JobStatus.LOST
            return
        due = self._clock.monotonic() + delay + self.faults.delay(hint)
        copies = [self._new(f"{hint.id}-copy", hint)] if self.faults.duplicate(hint) else []
        for sent in [job, *copies]:
            sent.payload = json.loads(json.dumps(hint.body()))
            sent.due, sent.order, sent.status = due, next(self._orders), JobStatus.WAITING
