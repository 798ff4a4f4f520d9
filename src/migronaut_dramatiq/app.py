"""A ready worker, configured by the environment: ``dramatiq migronaut_dramatiq.app:boot``.

``MIGRONAUT_BROKER_URL`` names the broker (redis, rediss, amqp, amqps), ``MIGRONAUT_QUEUE`` the queue
(default ``migronaut-background``). Everything else is the configuration of migronaut, or of the
application that ``MIGRONAUT_APP=package.module:factory`` names. Importing this connects to nothing.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping

import dramatiq

from migronaut.errors import MigronautError
from migronaut.migrator import load_migrator
from migronaut_dramatiq.brokers import BROKER_URL, broker_from_url, require_answer
from migronaut_dramatiq.declaring import DEFAULT_QUEUE
from migronaut_dramatiq.orphans import die_with_parent
from migronaut_dramatiq.short_logs import shorten_logs
from migronaut_dramatiq.wiring import setup

QUEUE = "MIGRONAUT_QUEUE"

_SHUTDOWN_TIMEOUT = 60_000
_LOGGER = logging.getLogger("migronaut.dramatiq")


def boot() -> None:
    """Make the broker that the environment names Dramatiq's, and set migronaut up on it.

    On Linux a worker process that boots so ends when Dramatiq's main process is killed.

    Raises:
        SystemExit: Something is missing or wrong; one line says what, and the code is the error's.
    """
    die_with_parent()
    shorten_logs()
    try:
        _boot(os.environ)
    except MigronautError as error:
        _LOGGER.critical("%s", error)
        raise SystemExit(error.exit_code) from None


def work(broker_url: str | None, *, processes: int, threads: int, queue_name: str | None = None) -> int:
    """Turn this process into a Dramatiq worker, until it is told to stop.

    Args:
        broker_url: None = ``MIGRONAUT_BROKER_URL``.
        processes: Worker processes.
        threads: Lanes in each.
        queue_name: None = ``MIGRONAUT_QUEUE``.

    Returns:
        The exit code, where a process cannot become another program (Windows).

    Raises:
        ConfigInvalidError: The URL is missing or wrong.
        ConnectionFailedError: The broker does not answer.
    """
    url = broker_url or os.environ.get(BROKER_URL)
    queue = queue_name or os.environ.get(QUEUE) or DEFAULT_QUEUE
    require_answer(url)
    environment = {**os.environ, **_variables(url or "", queue, threads)}
    command = _command(queue, processes=processes, threads=threads)
    if os.name == "posix":
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, environment)
    return subprocess.call(command, env=environment)


def _boot(environ: Mapping[str, str]) -> None:
    broker = broker_from_url(environ.get(BROKER_URL))
    # First, because a module of the application may declare actors of its own: without a broker Dramatiq would
    # invent one on localhost for them.
    dramatiq.set_broker(broker)
    setup(broker, load_migrator(environ), queue_name=environ.get(QUEUE) or DEFAULT_QUEUE)


def _variables(url: str, queue: str, threads: int) -> dict[str, str]:
    """A message that waits in a busy worker could be done by another: fetch no more than is worked on."""
    return {BROKER_URL: url, QUEUE: queue, "dramatiq_queue_prefetch": str(threads)}


def _command(queue: str, *, processes: int, threads: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "dramatiq",
        "migronaut_dramatiq.app:boot",
        f"--processes={processes}",
        f"--threads={threads}",
        f"--worker-shutdown-timeout={_SHUTDOWN_TIMEOUT}",
        f"--queues={queue}",
    ]
