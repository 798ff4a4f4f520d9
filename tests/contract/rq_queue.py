"""The RQ port under the contract suite: a real Redis, and RQ's own worker inside the test's process."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis import Redis
from rq import SimpleWorker
from rq.timeouts import TimerDeathPenalty

from migronaut.testing.contracts import Recorder
from migronaut_rq import RqQueue, jobs

TEST_DATABASE = 15
"""Emptied before each test: the servers that the environment names may hold something else in their first one."""


def in_test_database(redis_url: str) -> str:
    """The same server, our database."""
    return urlsplit(redis_url)._replace(path=f"/{TEST_DATABASE}").geturl()


@contextmanager
def emptied(redis_url: str) -> Iterator[Redis]:
    """A connection to the empty test database."""
    with Redis.from_url(in_test_database(redis_url)) as connection:
        connection.flushdb()
        yield connection


class _Worker(SimpleWorker):
    # The other way of RQ to interrupt a job takes the alarm signal, which pytest-timeout needs.
    death_penalty_class = TimerDeathPenalty


class RqHarness:
    """Works in bursts; scheduled jobs become due when a test moves them."""

    keeps_rows = True

    def __init__(self, connection: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        self._connection = connection
        self._monkeypatch = monkeypatch
        self.port = RqQueue(connection)

    def make(self, recorder: Recorder) -> RqQueue:
        recorder.port = self.port
        self._monkeypatch.setattr(jobs, "handler", lambda port: recorder)
        return self.port

    def drain(self, timeout: float = 10.0) -> None:
        # Time stands still for the scheduler meanwhile: on a slow machine, later jobs would become due.
        now = int(time.time())
        self._monkeypatch.setattr("rq.scheduler.current_timestamp", lambda: now)
        # RQ swallows what pytest-timeout raises inside a worker, so that a job without end needs this limit.
        end = time.monotonic() + timeout
        while self._burst():
            assert time.monotonic() < end, "the queue does not become idle"

    def _burst(self) -> bool:
        worker = _Worker([self.port.queue], connection=self._connection, serializer="json")
        return worker.work(burst=True, with_scheduler=True, logging_level="ERROR", max_jobs=100)

    def make_due(self, seconds: float) -> None:
        registry = self.port.queue.scheduled_job_registry
        for job_id in registry.get_job_ids():
            self._connection.zincrby(registry.key, -seconds, job_id)

    def metas(self) -> list[dict[str, Any]]:
        keys: list[bytes] = list(self._connection.scan_iter("rq:job:migronaut-*"))
        return [json.loads(meta) for key in keys if (meta := self._connection.hget(key, "meta"))]

    def visible(self) -> str:
        return "\n".join(f"{meta}" for meta in self.metas())


@contextmanager
def rq(redis_url: str) -> Iterator[RqHarness]:
    """An empty queue; the test's signal handlers are as before afterwards."""
    with emptied(redis_url) as connection, pytest.MonkeyPatch.context() as monkeypatch, _signals_kept():
        yield RqHarness(connection, monkeypatch)


@contextmanager
def _signals_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
