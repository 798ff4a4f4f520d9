"""Real ``rq worker`` processes with scripted jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis

import migronaut
import migronaut_rq
from contract.rq_queue import in_test_database
from migronaut.core.jobs import Hint

TESTS = Path(__file__).parents[1]
STOP_LIMIT = 5.0
"""Seconds within which a worker must have left after SIGTERM."""


def environment() -> dict[str, str]:
    """Ours, with the scripts importable."""
    sources = [Path(package.__file__ or "").parents[1] for package in (migronaut, migronaut_rq)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*sources, TESTS, TESTS / "integration"]))}


@contextmanager
def worker(
    redis_url: str, *options: str, kind: str = "rq_scripted.MigronautWorker"
) -> Iterator[subprocess.Popen[bytes]]:
    """``rq worker`` as operators start it, with scripted jobs."""
    url = in_test_database(redis_url)
    command = [sys.executable, "-m", "rq.cli", "worker", "-w", kind, "-u", url, *options]
    with process([*command, "migronaut-background"]) as started:
        yield started


@contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone afterwards, with its group."""
    started = subprocess.Popen(command, env=environment(), start_new_session=True)
    try:
        yield started
    finally:
        # The scheduler of a killed worker lives on in its group.
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def until(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Wait for something true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "what the test waits for did not happen"
        time.sleep(0.02)
    return found


def told(connection: Redis) -> list[dict[str, Any]]:
    """What the jobs told so far."""
    return [json.loads(line) for line in connection.lrange("told", 0, -1)]


def arrived(connection: Redis, hint: Hint) -> dict[str, Any]:
    """What the first delivery of a hint told, once it has arrived."""
    found: dict[str, Any] = until(lambda: next((each for each in told(connection) if each["job"] == hint.id), None))
    return found
