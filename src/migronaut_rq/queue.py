"""The queue port on RQ."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Retry
from rq.exceptions import InvalidJobOperation
from rq.job import Job, JobStatus
from rq.queue import EnqueueData

from migronaut.core.jobs import Hint, LaneJob, VerifyJob
from migronaut.core.tickets import ContinueLater, WaitForLanes
from migronaut.queueing.rows import MAX_ROWS, row
from migronaut_rq.broker import speaking
from migronaut_rq.connecting import require_bytes
from migronaut_rq.stopping import WorkerStop

QUEUE_NAME = "migronaut-background"
FUNCTION = "migronaut_rq.jobs.run"
LOSSES = 3
"""Workers in a row that may vanish under a job before RQ calls it failed. The heal takes it up again."""

JOB_TIMEOUT = 2 * 3600
"""Seconds, longer than the longest slice: what a migration may take is its own affair, and lost workers are found by
their heartbeats. RQ's interrupt is an ordinary exception, which a transform would turn into the error of a document."""
_FOR_EVER = 10**9
_RESULT_TTL = 3600
_VERIFY_RESULT_TTL = 60
FAILURE_TTL = 7 * 24 * 3600
_LOGGER = logging.getLogger("migronaut.rq")


class RqQueue:
    """A ``QueuePort[rq.job.Job]``: one RQ queue of JSON jobs.

    Args:
        connection: To Redis or Valkey; RQ needs one that does not decode responses.
        queue_name: The queue that ``MigronautWorker`` processes listen on.
        job_timeout: Seconds after which RQ interrupts a job: a slice, and slack.

    Raises:
        ConfigInvalidError: The connection decodes responses.
    """

    def __init__(self, connection: Redis, *, queue_name: str = QUEUE_NAME, job_timeout: int = JOB_TIMEOUT) -> None:
        require_bytes(connection)
        self.queue = Queue(queue_name, connection=connection, serializer="json", default_timeout=job_timeout)
        self._connection = connection
        self._job_timeout = job_timeout
        self._stopping = WorkerStop(connection)

    @property
    def stopping(self) -> WorkerStop:
        """Set when the worker of the current job shuts down; a producer's is never set."""
        return self._stopping

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send hints in one transaction: all of them, or none.

        Raises:
            ConnectionFailedError: Redis did not answer, or refused.
        """
        jobs = [self._job_data(hint) for hint in hints]
        if not jobs:
            return
        with speaking(self._connection), self._connection.pipeline(transaction=True) as pipeline:
            self.queue.enqueue_many(jobs, pipeline=pipeline)
            pipeline.execute()

    def continue_later(self, job: Job, directive: ContinueLater) -> Retry | None:
        """Give the job its next payload.

        Returns:
            What has RQ schedule the same job again, or None for a job that was cancelled or deleted.

        Raises:
            ConnectionFailedError: Redis did not answer, or refused.
        """
        return self._again(job, directive.hint, delay=directive.delay)

    def wait_for_lanes(self, job: Job, directive: WaitForLanes) -> Retry | None:
        """Send the children, then schedule the job for its poll; see ``continue_later``."""
        self.enqueue(directive.children)
        return self._again(job, directive.hint, delay=directive.poll)

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Move a scheduled job to now. One that is not scheduled (yet) is left to its poll, or to the heal.

        Raises:
            ConnectionFailedError: Redis did not answer, or refused.
        """
        if ref is None:
            return
        with speaking(self._connection):
            self._connection.zadd(self.queue.scheduled_job_registry.key, {ref: int(time.time())}, xx=True)

    def annotate(self, job: Job, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Keep the last 50 rows as ``job.meta["log"]``, and the progress as ``job.meta["progress"]``."""
        if not isinstance(job, Job):
            return
        before = job.meta
        job.meta = _annotated(before, log=log, progress=progress)
        try:
            job.save_meta()  # type: ignore[no-untyped-call]
        except RedisError as error:
            _LOGGER.debug("A job was not annotated (%s).", type(error).__name__)
        except (TypeError, ValueError):
            # RQ saves the meta again when the job ends: what is no JSON must not stay in it.
            job.meta = before
            _LOGGER.debug("A job was not annotated: not plain JSON.")

    def _again(self, job: Job, hint: Hint, *, delay: float) -> Retry | None:
        with speaking(self._connection):
            if not _is_started(job):
                return None
            # Reassigned, not changed in place: RQ saves only what was assigned.
            job.kwargs = hint.body()
            job.description = _description(hint)
            job.retries_left = LOSSES
            job.save()
        return Retry(max=_FOR_EVER, interval=math.ceil(delay))

    def _job_data(self, hint: Hint) -> EnqueueData:
        beat = isinstance(hint.payload, VerifyJob)
        return Queue.prepare_data(
            FUNCTION,
            kwargs=hint.body(),
            timeout=self._job_timeout,
            result_ttl=_VERIFY_RESULT_TTL if beat else _RESULT_TTL,
            failure_ttl=FAILURE_TTL,
            description=_description(hint),
            job_id=hint.id,
            # A beat is short, and behind a backlog of slices it could not repair that backlog.
            at_front=beat,
            meta={},
            retry=Retry(max=LOSSES),
        )


def _is_started(job: Job) -> bool:
    try:
        return job.get_status(refresh=True) == JobStatus.STARTED
    except InvalidJobOperation:
        return False


def _description(hint: Hint) -> str:
    payload = hint.payload
    match payload:
        case VerifyJob():
            return payload.kind
        case LaneJob():
            return row(f"{payload.kind} {payload.migration} lane {payload.lane}")
        case _:
            return row(f"{payload.kind} {payload.migration}")


def _annotated(meta: Mapping[str, Any], *, log: str | None, progress: Mapping[str, Any] | None) -> dict[str, Any]:
    annotated = dict(meta)
    if log is not None:
        annotated["log"] = [*meta.get("log", ()), row(log)][-MAX_ROWS:]
    if progress is not None:
        annotated["progress"] = {**meta.get("progress", {}), **progress}
    return annotated
