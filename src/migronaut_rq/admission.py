"""Which jobs of a queue are ours, and what becomes of the others.

Whoever can write to Redis can put any job into a queue: with a function, callbacks and addresses that RQ would import,
call or send to. So each job is looked at as it comes out of Redis, before RQ does anything for it.
"""

from __future__ import annotations

import logging
from typing import Any

from redis import Redis
from redis.exceptions import ResponseError
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus

from migronaut.core.jobs import parse_payload
from migronaut.errors import QueueJobInvalidError
from migronaut.queueing import row
from migronaut_rq.queue import FAILURE_TTL, FUNCTION

_LOGGER = logging.getLogger("migronaut.rq")


class MigronautJob(Job):
    """A job for which RQ imports, calls and sends nothing, neither in its run nor in the maintenance of a worker.

    Attributes:
        refusal: Why it must not run, in one sentence; None for one of ours.
    """

    refusal: str | None = None

    @classmethod
    def fetch(cls, id: str, connection: Redis | None = None, serializer: Any = None) -> Job:  # noqa: A002 - as RQ has it
        """Read a job; what could not be one does not end the worker that meets it.

        Raises:
            NoSuchJobError: It is gone, or what is stored under its name is no job at all.
        """
        try:
            return super().fetch(id, connection=connection, serializer=serializer)
        except (ValueError, TypeError):  # an id that RQ does not accept
            pass
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        _LOGGER.warning("What the queue names %s is no job of RQ; it was passed over.", row(id))
        raise NoSuchJobError from None

    def restore(self, raw_data: Any) -> None:
        """Take over what is stored, and see whether it is one of ours."""
        try:
            super().restore(raw_data)
        except NoSuchJobError:
            raise
        except Exception:  # a forged record raises wherever RQ takes a field for granted
            self.refusal = "Its record is not one that RQ wrote."
            if not isinstance(self._data, bytes):
                self.data = b""
        else:
            self.refusal = _refusal(self)
        self.description = row(self.description or "")

    @property
    def success_callback(self) -> None:
        """None: ours have none, and that of any other is not imported."""

    @property
    def failure_callback(self) -> None:
        """None, as above: RQ calls it for jobs that were abandoned, too."""

    @property
    def stopped_callback(self) -> None:
        """None, as above."""

    def send_webhooks(self, status: str | JobStatus, *, exc_string: str | None = None) -> None:
        """Send nothing."""


def _refusal(job: Job) -> str | None:
    try:
        call = (job.func_name, job.instance, list(job.args))
        payload = job.kwargs
    except Exception:  # whatever a serializer raises
        return "Its data is not the JSON of a hint."
    if call != (FUNCTION, None, []):
        return "Its function is not migronaut's."
    if job._success_callback_name or job._failure_callback_name or job._stopped_callback_name or job.webhooks:
        return "It has a callback or a webhook, and ours have none."
    try:
        parse_payload(payload)
    except QueueJobInvalidError as error:
        return error.message
    return None


def refuse(job: Job, queue: Queue) -> None:
    """Make a job that must not run a failed one, and say so in one line."""
    why = getattr(job, "refusal", None) or "It was not looked at."
    _LOGGER.error("The job %s was refused, and nothing of it was run. %s", row(job.id), why)
    with queue.connection.pipeline(transaction=True) as pipeline:
        job.set_status(JobStatus.FAILED, pipeline=pipeline)
        queue.failed_job_registry.add(job, ttl=FAILURE_TTL, exc_string=why, pipeline=pipeline)
        pipeline.lrem(queue.intermediate_queue_key, 1, job.id)
        pipeline.execute()
