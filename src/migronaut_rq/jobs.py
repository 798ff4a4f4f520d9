"""What RQ calls for each job, by its dotted name ``migronaut_rq.jobs.run``."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from rq import get_current_job
from rq.job import Job

from migronaut.core.tickets import Finish
from migronaut.errors import MigronautError, UsageError
from migronaut.migrator import Migrator, load_migrator
from migronaut.queueing import BackgroundProcessor, Handler, perform
from migronaut_rq.queue import JOB_TIMEOUT, RqQueue


def run(**payload: Any) -> object:
    """Do one job of a background migration.

    Returns:
        A text for the dashboard, or RQ's order to run the same job again.

    Raises:
        UsageError: Called by anything else than an RQ worker.
        QueueJobInvalidError: The payload is not one of ours; nothing was run.
        ConfigInvalidError: This worker does not know which database it works for.
        ConnectionFailedError: MongoDB did not answer; the heal sends the hint again.
    """
    job = get_current_job()
    if job is None:
        raise UsageError(f"{__name__}.run is called by an RQ worker, for the jobs of its queue.")
    port = RqQueue(job.connection, queue_name=job.origin, job_timeout=int(job.timeout or JOB_TIMEOUT))
    with port.stopping.watching(job.worker_name):
        try:
            directive = handler(port).handle(payload, job)
        except Exception as error:
            # RQ's retries are for lost workers. This one would fail again at once; the heal sends it again later.
            job.retries_left = 0
            if isinstance(error, MigronautError):
                raise error.with_traceback(None) from None
            raise
        following = perform(port, job, directive)
    return directive.result if isinstance(directive, Finish) else following


def handler(port: RqQueue) -> Handler[Job]:
    """What does the jobs of this process."""
    migrator = open_migrator(os.getpid())
    return BackgroundProcessor(migrator.background.engine, port, owner=migrator.owner, settings=migrator.queue_settings)


@cache
def open_migrator(pid: int) -> Migrator:
    """One for each process: a MongoClient must not cross a fork."""
    return load_migrator(os.environ)
