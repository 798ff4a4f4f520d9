"""The queue of the demo: the command of its workers, and the port to send hints through."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from migronaut.core.ports import QueuePort
from migronaut.demo.options import QueueKind
from migronaut.errors import ConfigInvalidError
from migronaut.migrator import Migrator

_LANES = 2
"""Of one process; an RQ worker has one, always."""


def require(queue: QueueKind) -> None:
    """See that the library of a queue is here.

    Raises:
        ConfigInvalidError: It is not; the message names the extra.
    """
    if queue is QueueKind.NONE:
        return
    try:
        import_module(f"migronaut_{queue}")
    except ImportError as error:
        raise ConfigInvalidError(
            f"The demo with --queue {queue} needs a library that is not here ({error.name or queue}); "
            f'install it with: pip install "migronaut[embedded,{queue}]"'
        ) from None


def worker_arguments(queue: QueueKind) -> Sequence[str]:
    """The command line of one worker process, without the program."""
    if queue is QueueKind.NONE:
        return ("background", "run", "--concurrency", str(_LANES))
    if queue is QueueKind.DRAMATIQ:
        return ("worker", "--queue", queue.value, "--threads", str(_LANES))
    return ("worker", "--queue", queue.value)


def open_port(queue: QueueKind, url: str, migrator: Migrator) -> QueuePort[Any]:
    """Connect the demo itself to its queue, as an application that enqueues would."""
    if queue is QueueKind.RQ:
        from migronaut_rq import open_queue

        return open_queue(url)
    from migronaut_dramatiq import open_queue as open_dramatiq

    return open_dramatiq(url, migrator)
