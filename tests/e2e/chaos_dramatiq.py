"""Dramatiq under chaos; as ``dramatiq e2e.chaos_dramatiq:boot``, workers with a faulty port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

import pika
from redis import Redis

from e2e.chaos_faults import FaultyPort
from e2e.chaos_kit import LANES, MIGRATION, python
from e2e.chaos_redis import everything
from migronaut import Migrator
from migronaut.embedded import EmbeddedValkey
from migronaut.queueing import enqueue_background
from migronaut_dramatiq import DramatiqQueue, app, declaring, open_queue

_WORKERS = 2


class FaultyDramatiqQueue(FaultyPort, DramatiqQueue):
    """The port that jobs send through."""


def boot() -> None:
    """Entry for the ``dramatiq`` command."""
    declaring.DramatiqQueue = FaultyDramatiqQueue  # type: ignore[misc]
    app.boot()


class _Dramatiq:
    """Two workers with four lanes each, on a queue of their own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queue = f"chaos-{uuid4().hex}"
        self.variables: Mapping[str, str] = {"MIGRONAUT_BROKER_URL": url, "MIGRONAUT_QUEUE": self.queue}

    def commands(self, *, faulty: bool) -> Sequence[Sequence[str]]:
        boot = "e2e.chaos_dramatiq:boot" if faulty else "migronaut_dramatiq.app:boot"
        options = ["--processes=1", f"--threads={LANES}", "--worker-shutdown-timeout=60000"]
        return [python("dramatiq", boot, *options, f"--queues={self.queue}")] * _WORKERS

    def wake(self, migrator: Migrator) -> None:
        enqueue_background(open_queue(self.url, migrator, queue_name=self.queue), migrator, MIGRATION)


class OnValkey(_Dramatiq):
    """On a Valkey of the test's own."""

    def __init__(self, server: EmbeddedValkey) -> None:
        super().__init__(server.url)
        self._server = server

    def lose_everything(self) -> None:
        self._server.kill()
        self._server.restart()

    def kept(self) -> bytes:
        with Redis.from_url(self.url) as connection:
            return b"\n".join(everything(connection))


class OnRabbitMQ(_Dramatiq):
    """On a server that others use as well."""

    def lose_everything(self) -> None:
        """Deleting the queues takes their messages and their consumers away, as a server that lost its disk does."""
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            channel = connection.channel()
            for name in self._queues():
                channel.queue_delete(name)

    def kept(self) -> bytes:
        found = []
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            for name in self._queues():
                channel = connection.channel()
                while (got := channel.basic_get(name))[0] is not None:
                    found.append(got[2])
        return b"\n".join(found)

    def _queues(self) -> list[str]:
        return [self.queue, f"{self.queue}.DQ", f"{self.queue}.XQ"]
