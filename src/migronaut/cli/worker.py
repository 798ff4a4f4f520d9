"""``worker``: the workers of a queue, and the ports that commands send hints through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any

import click

from migronaut.cli.grouping import examples
from migronaut.cli.session import Session, pass_session
from migronaut.config.settings import CHECKS, CODE_ONLY
from migronaut.config.sources import PREFIX
from migronaut.core.ports import QueuePort
from migronaut.errors import ConfigInvalidError, UsageError
from migronaut.migrator import APP

DEFAULT_QUEUE = "migronaut-background"
QUEUES = click.Choice(["rq", "dramatiq"])
_URLS = {"rq": "MIGRONAUT_REDIS_URL", "dramatiq": "MIGRONAUT_BROKER_URL"}
_QUEUE = "MIGRONAUT_QUEUE"
_THREADS = 4


def broker_url(session: Session, queue: str, given: str | None) -> str:
    """The URL of the broker.

    Raises:
        ConfigInvalidError: None is given.
    """
    url = given or session.environment.get(_URLS[queue])
    if not url:
        raise ConfigInvalidError(f"No broker is named: give --broker-url, or set {_URLS[queue]}.", setting="broker_url")
    return url


def require_library(queue: str) -> None:
    """See that the adapter of a queue can be imported: without it no URL helps.

    Raises:
        ConfigInvalidError: Its library is not installed; the message has the command that installs it.
    """
    try:
        import_module(f"migronaut_{queue}")
    except ImportError as error:
        raise ConfigInvalidError(str(error), setting="queue") from None


def installed() -> tuple[str, ...]:
    """The queues whose library is here."""
    return tuple(queue for queue in QUEUES.choices if find_spec(queue) is not None)


def queue_name(environment: Mapping[str, str]) -> str:
    """The queue that hints travel through."""
    return environment.get(_QUEUE) or DEFAULT_QUEUE


def open_port(session: Session, queue: str, url: str | None) -> QueuePort[Any]:
    """A port to send hints through.

    Raises:
        ConfigInvalidError: The extra is missing, or the URL is missing or wrong.
        ConnectionFailedError: The broker does not answer.
    """
    require_library(queue)
    target, name = broker_url(session, queue, url), queue_name(session.environment)
    try:
        if queue == "rq":
            from migronaut_rq import open_queue

            return open_queue(target, queue_name=name)
        from migronaut_dramatiq import open_queue as open_dramatiq

        return open_dramatiq(target, session.migrator, queue_name=name)
    except ImportError as error:
        raise ConfigInvalidError(str(error)) from None


@click.command(
    short_help="Run workers of a queue.",
    epilog=examples(
        "migronaut worker --queue rq --processes 4 --broker-url redis://localhost/0",
        "migronaut worker --queue dramatiq --processes 2 --threads 4",
    ),
)
@click.option("--queue", type=QUEUES, required=True, help="Which library's workers.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--threads", type=click.IntRange(1, 64), help="Lanes in each, of Dramatiq alone; default: 4.")
@click.option("--broker-url", "given", default=None, help="Default: MIGRONAUT_REDIS_URL or MIGRONAUT_BROKER_URL.")
@pass_session
def worker(session: Session, queue: str, processes: int, threads: int | None, given: str | None) -> int:
    """Run workers for background migrations, until they are told to stop.

    An RQ process works one lane: start as many as you want lanes. Active migrations are found within
    half a minute; `migronaut background enqueue` wakes the workers at once.
    """
    if queue == "rq" and threads is not None:
        raise UsageError(f"Workers of RQ have no threads; for {threads} lanes use --processes {threads}.")
    require_library(queue)
    url = broker_url(session, queue, given)
    os.environ.update(_exported(session))
    try:
        if queue == "dramatiq":
            from migronaut_dramatiq.app import work as work_dramatiq

            name = queue_name(session.environment)
            return work_dramatiq(url, processes=processes, threads=threads or _THREADS, queue_name=name)
        from migronaut_rq import work
    except ImportError as error:
        raise ConfigInvalidError(str(error)) from None
    if processes == 1:
        return work(url, queue_name=queue_name(session.environment))
    return _several(processes, url)


def _exported(session: Session) -> dict[str, str]:
    """All settings as variables: worker processes read the environment, wherever these came from.

    Raises:
        ConfigInvalidError: A worker could not work with them; better told now than in its first job.
    """
    variables = {name: value for name, value in session.environment.items() if name.startswith(PREFIX)}
    if variables.get(APP):
        return variables
    config = session.config
    if config.client is not None and session.options.config_file is not None:
        raise ConfigInvalidError(
            f"Worker processes cannot be handed the client of {session.options.config_file}: give a uri, or set "
            f"{APP}=package.module:factory.",
            setting="client",
        )
    values = {name: getattr(config, name) for name in CHECKS if name not in CODE_ONLY}
    return variables | {PREFIX + name.upper(): str(value) for name, value in values.items() if value is not None}


def _several(processes: int, url: str) -> int:
    """Start more of this command, pass signals on, and end when all have ended."""
    command = [sys.executable, "-m", "migronaut", "worker", "--queue", "rq", "--processes", "1"]
    environment = {**os.environ, _URLS["rq"]: url}
    children: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        """Hand the signal on to the workers."""
        asked.append(number)
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    while len(children) < processes and not asked:
        # A session of its own: Ctrl-C reaches it once, through us.
        children.append(subprocess.Popen(command, env=environment, start_new_session=True))
    return max((_code(child.wait(), asked) for child in children), default=0)


def _code(ended: int, asked: Sequence[int]) -> int:
    """The exit code of a process; one that a signal ended is only fine if we passed that signal on."""
    return 0 if -ended in asked else ended if ended >= 0 else 1
