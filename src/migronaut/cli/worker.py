"""``worker``: the workers of a queue, and the ports that commands send hints through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import click

from migronaut.cli.session import Session, pass_session
from migronaut.core.ports import QueuePort
from migronaut.errors import ConfigInvalidError

DEFAULT_QUEUE = "migronaut-background"
QUEUES = click.Choice(["rq", "dramatiq"])
_URLS = {"rq": "MIGRONAUT_REDIS_URL", "dramatiq": "MIGRONAUT_BROKER_URL"}
_QUEUE = "MIGRONAUT_QUEUE"


def broker_url(session: Session, queue: str, given: str | None) -> str:
    """The URL of the broker.

    Raises:
        ConfigInvalidError: None is given.
    """
    url = given or session.environment.get(_URLS[queue])
    if not url:
        raise ConfigInvalidError(f"No broker is named: give --broker-url, or set {_URLS[queue]}.", setting="broker_url")
    return url


def queue_name(environment: Mapping[str, str]) -> str:
    """The queue that hints travel through."""
    return environment.get(_QUEUE) or DEFAULT_QUEUE


def open_port(session: Session, queue: str, url: str | None) -> QueuePort[Any]:
    """A port to send hints through.

    Raises:
        ConfigInvalidError: The extra is missing, or the URL is missing or wrong.
        ConnectionFailedError: The broker does not answer.
    """
    target, name = broker_url(session, queue, url), queue_name(session.environment)
    try:
        if queue == "rq":
            from migronaut_rq import open_queue

            return open_queue(target, queue_name=name)
        from migronaut_dramatiq import open_queue as open_dramatiq

        return open_dramatiq(target, session.migrator, queue_name=name)
    except ImportError as error:
        raise ConfigInvalidError(str(error)) from None


@click.command(short_help="Run workers of a queue.")
@click.option("--queue", type=QUEUES, required=True, help="Which library's workers.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Lanes in each (Dramatiq).")
@click.option("--broker-url", "given", default=None, help="Default: MIGRONAUT_REDIS_URL or MIGRONAUT_BROKER_URL.")
@pass_session
def worker(session: Session, queue: str, processes: int, threads: int, given: str | None) -> int:
    """Run workers for background migrations, until they are told to stop.

    An RQ process works one lane: start as many as you want lanes. Active migrations are found within
    half a minute; `migronaut background enqueue` wakes the workers at once.

    \b
    Examples:
      migronaut worker --queue rq --processes 4
      migronaut worker --queue dramatiq --processes 2 --threads 4
    """
    url = broker_url(session, queue, given)
    _check_configured(session)
    try:
        if queue == "dramatiq":
            from migronaut_dramatiq.app import work as work_dramatiq

            name = queue_name(session.environment)
            return work_dramatiq(url, processes=processes, threads=threads, queue_name=name)
        from migronaut_rq import work
    except ImportError as error:
        raise ConfigInvalidError(str(error)) from None
    if processes == 1:
        return work(url, queue_name=queue_name(session.environment))
    return _several(processes, url)


def _check_configured(session: Session) -> None:
    """A worker that does not know its database says so now, not in its first job."""
    if not session.environment.get("MIGRONAUT_APP"):
        os.environ.update(_exported(session))


def _exported(session: Session) -> dict[str, str]:
    """What was given as flags, as variables: worker processes read the environment."""
    config = session.config
    values = {"MIGRONAUT_URI": config.uri, "MIGRONAUT_DB": config.db, "MIGRONAUT_MIGRATIONS_DIR": config.migrations_dir}
    return {name: str(value) for name, value in values.items() if value is not None}


def _several(processes: int, url: str) -> int:
    """Start more of this command, pass signals on, and end when all have ended."""
    command = [sys.executable, "-m", "migronaut", "worker", "--queue", "rq", "--processes", "1"]
    environment = {**os.environ, _URLS["rq"]: url}
    children = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(processes)]

    def forward(number: int, _: FrameType | None) -> None:
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    return max(child.wait() for child in children)
