"""One SIGTERM ends an RQ worker, whenever it comes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from redis import Redis

from contract.rq_queue import emptied
from integration.rq_processes import STOP_LIMIT, arrived, until, worker
from migronaut.testing.contracts import lane_hint
from migronaut_rq import RqQueue

MAINTENANCE = 1
"""Seconds between two rounds of maintenance of a worker."""


@pytest.fixture
def connection(redis_url: str) -> Iterator[Redis]:
    with emptied(redis_url) as opened:
        yield opened


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_worker_ends_when_its_maintenance_is_due_as_it_is_told_to(redis_url: str, connection: Redis) -> None:
    hint = lane_hint(0, run="until-stopped")
    RqQueue(connection).enqueue([hint])
    with worker(redis_url, "--maintenance-interval", str(MAINTENANCE), kind="rq_stopping.SlowToListen") as process:
        arrived(connection, hint)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + MAINTENANCE + 0.1)
        process.terminate()
        assert process.wait(STOP_LIMIT) == 0
        assert is_gone(process.pid)


@pytest.mark.parametrize("kind", ["StoppedInALog", "StoppedEarly"])
def test_a_worker_ends_whatever_it_was_doing(redis_url: str, connection: Redis, kind: str) -> None:
    # A worker waits for jobs 15 s less than this.
    options = ("--worker-ttl", "16", "--maintenance-interval", str(MAINTENANCE))
    with worker(redis_url, *options, kind=f"rq_stopping.{kind}") as process:
        assert process.wait(20) == 0
        assert is_gone(process.pid)


def test_a_worker_without_a_job_ends_at_once(redis_url: str, connection: Redis) -> None:
    with worker(redis_url) as process:
        until(lambda: connection.keys("rq:worker:*"))
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_LIMIT) == 0
