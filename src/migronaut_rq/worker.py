"""An RQ worker that gives lost jobs back within a minute or two, and beats."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Queue, Worker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.worker import WorkerStatus

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.errors import ConnectionFailedError, UsageError, redact
from migronaut_rq.admission import MigronautJob, refuse
from migronaut_rq.broker import speaking
from migronaut_rq.connecting import connect, require_bytes
from migronaut_rq.queue import FUNCTION, QUEUE_NAME, RqQueue

_WORKER_TTL = 30
_MAINTENANCE_INTERVAL = 15
_JOB_MONITORING_INTERVAL = 10
_SCHEDULER_PATIENCE = 10
"""Seconds that the scheduler of a worker may take to end."""

_LOGGER = logging.getLogger("migronaut.rq")


class MigronautWorker(Worker):
    """``rq worker -w migronaut_rq.MigronautWorker migronaut-background``.

    An RQ worker that runs hints and nothing else: any other job fails before anything of it is imported. With JSON
    jobs, its scheduler on, one queue, and intervals short enough to bring the job of a killed worker back after a
    minute or two instead of thirteen. From time to time it asks for
    lost hints to be healed; that takes Redis only, so nothing of MongoDB is open before a fork.

    Raises:
        UsageError: More than one queue: a job could get lost between them and the start.
        ConfigInvalidError: The connection decodes.
    """

    def __init__(self, queues: str | Queue | Iterable[str | Queue], name: str | None = None, **settings: Any) -> None:
        settings["serializer"] = "json"
        settings["job_class"] = MigronautJob
        settings["worker_ttl"] = _at_most(_WORKER_TTL, settings.get("worker_ttl"))
        settings["maintenance_interval"] = _at_most(_MAINTENANCE_INTERVAL, settings.get("maintenance_interval"))
        settings["job_monitoring_interval"] = _at_most(
            _JOB_MONITORING_INTERVAL, settings.get("job_monitoring_interval")
        )
        self.asked_to_stop = False
        given = [queues] if isinstance(queues, str | Queue) else list(queues)
        if len(given) > 1:
            raise UsageError("A MigronautWorker listens on one queue; start one worker for each queue.")
        if given and isinstance(given[0], Queue):
            settings["connection"] = settings.get("connection") or given[0].connection
        # By name, so that the queue is made with the worker's serializer.
        super().__init__([queue if isinstance(queue, str) else queue.name for queue in given], name, **settings)
        require_bytes(self.connection)

    def work(self, *args: Any, **settings: Any) -> bool:
        """Work as ``rq.Worker`` does, always with the scheduler, until the first signal that asks for the end."""
        # Loaded before the fork: otherwise each job would load it again.
        import_module(FUNCTION.rpartition(".")[0])
        settings["with_scheduler"] = True
        # RQ does this after it has started its scheduler, which a signal in between would leave behind.
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        try:
            return super().work(*args, **settings)
        except StopRequested:  # asked before RQ expects it
            self.teardown()  # type: ignore[no-untyped-call]
            return False

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a job of ours; any other fails before anything of it is imported."""
        if isinstance(job, MigronautJob) and job.refusal is None:
            super().execute_job(job, queue)
        else:
            refuse(job, queue)

    def run_maintenance_tasks(self) -> None:
        """Clean up as RQ does, then beat; nothing of it for a worker that ends: RQ would start its scheduler again."""
        if self.asked_to_stop:
            return
        super().run_maintenance_tasks()  # type: ignore[no-untyped-call]
        for queue in self.queues:
            beat(self.connection, queue_name=queue.name, interval=self.maintenance_interval)

    def handle_warm_shutdown_request(self) -> None:
        """Remember that somebody wants this worker to end."""
        self.asked_to_stop = True
        # RQ asks an idle worker to end by an exception, which is lost where all exceptions are caught, e.g. in a log.
        self._stop_requested = True
        super().handle_warm_shutdown_request()  # type: ignore[no-untyped-call]

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Tell that this worker lives, or end where RQ's exception for that was lost."""
        super().heartbeat(timeout, pipeline)
        if self.asked_to_stop and self.get_state() == WorkerStatus.IDLE:
            raise StopRequested

    def stop_scheduler(self) -> None:
        """End the scheduler, for certain.

        RQ asks it once and then waits for ever. A scheduler that was forked a moment ago has the signal handlers of its
        worker still, and these ignore the second signal of a second.
        """
        process: BaseProcess | None = self.scheduler._process if self.scheduler else None
        if process is None:
            return
        for _ in range(_SCHEDULER_PATIENCE):
            if not process.is_alive():
                return
            process.terminate()
            process.join(1.0)
        process.kill()  # its lock is free again a minute later
        process.join()


def _at_most(limit: int, given: int | None) -> int:
    return min(limit, given) if given else limit


def beat(connection: Redis, *, queue_name: str, interval: int) -> bool:
    """Ask for a heal and a drift check, at most once per interval for all workers of the queue.

    Returns:
        True when a hint was sent. Trouble with Redis is logged, never raised: the next beat tries again.
    """
    try:
        if not connection.set(f"migronaut:beat:{queue_name}", 1, nx=True, ex=interval):
            return False
        hint = Hint(id=f"migronaut-verify-{uuid4().hex}", payload=VerifyJob())
        RqQueue(connection, queue_name=queue_name).enqueue([hint])
    except (RedisError, ConnectionFailedError) as error:
        _LOGGER.warning("No beat was sent (%s: %s).", type(error).__name__, redact(error))
        return False
    return True


def work(redis_url: str, *, queue_name: str = QUEUE_NAME, burst: bool = False) -> int:
    """Run one worker in this process until it is asked to stop.

    Args:
        burst: End when the queue is empty.

    Returns:
        Exit code: 0 after a stop or a burst, 1 when the worker ended by itself.

    Raises:
        ConfigInvalidError: The URL is not one of Redis.
        ConnectionFailedError: Redis did not answer, or refused.
    """
    connection = connect(redis_url)
    with speaking(connection):
        worker = MigronautWorker([queue_name], connection=connection)
        worker.work(burst=burst)
    return 0 if burst or worker.asked_to_stop else 1


def open_queue(redis_url: str, *, queue_name: str = QUEUE_NAME) -> RqQueue:
    """Connect, to send hints.

    Raises:
        ConfigInvalidError: The URL is not one of Redis.
        ConnectionFailedError: Redis did not answer, or refused.
    """
    return RqQueue(connect(redis_url), queue_name=queue_name)
