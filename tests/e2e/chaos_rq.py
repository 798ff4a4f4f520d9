"""RQ under chaos; as a module of ``rq worker -w e2e.chaos_rq.FaultyWorker``, workers with a faulty port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis

from e2e.chaos_faults import FaultyPort
from e2e.chaos_kit import LANES, MIGRATION, python
from e2e.chaos_redis import everything
from migronaut import Migrator
from migronaut.embedded import EmbeddedValkey
from migronaut.queueing import enqueue_background
from migronaut_rq import QUEUE_NAME, MigronautWorker, RqQueue, jobs, open_queue


class FaultyRqQueue(FaultyPort, RqQueue):
    """The port that jobs send through."""


class Rq:
    """RQ on a Valkey of the test's own. One worker works one lane."""

    def __init__(self, server: EmbeddedValkey) -> None:
        self._server = server
        self.variables: Mapping[str, str] = {}

    def commands(self, *, faulty: bool) -> Sequence[Sequence[str]]:
        worker = "e2e.chaos_rq.FaultyWorker" if faulty else "migronaut_rq.MigronautWorker"
        times = ["--worker-ttl", "16", "--maintenance-interval", "1", "--job-monitoring-interval", "1"]
        command = python("rq.cli", "worker", "-v", "-u", self._server.url, "-w", worker, *times, QUEUE_NAME)
        return [command] * LANES

    def wake(self, migrator: Migrator) -> None:
        enqueue_background(open_queue(self._server.url), migrator, MIGRATION)

    def lose_everything(self) -> None:
        self._server.kill()
        self._server.restart()

    def kept(self) -> bytes:
        with Redis.from_url(self._server.url) as connection:
            return b"\n".join(everything(connection))


class FaultyWorker(MigronautWorker):
    """A worker whose jobs lose or double what they send."""

    def work(self, *args: Any, **settings: Any) -> bool:
        jobs.RqQueue = FaultyRqQueue  # type: ignore[misc]
        return super().work(*args, **settings)
