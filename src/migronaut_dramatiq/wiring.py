"""From a configuration or a ``Migrator`` to a queue that works for it."""

from __future__ import annotations

from collections.abc import Callable

from dramatiq import Broker

from migronaut.config import Config
from migronaut.migrator import Migrator
from migronaut.queueing import BackgroundProcessor
from migronaut_dramatiq.brokers import broker_from_url, require_answer
from migronaut_dramatiq.declaring import DEFAULT_PREFIX, DEFAULT_QUEUE, HEAL_INTERVAL, BackgroundHandler, declare
from migronaut_dramatiq.queue import DramatiqQueue


def setup(
    broker: Broker,
    config_or_migrator: Config | Migrator | Callable[[], Migrator],
    *,
    queue_name: str = DEFAULT_QUEUE,
    prefix: str = DEFAULT_PREFIX,
) -> DramatiqQueue:
    """Let the workers of a broker do background migrations, and return the queue to send them through.

    Call it once for a broker, wherever the application declares its actors. It connects to nothing:
    MongoDB is opened by the first job or beat of each process.

    Args:
        broker: A Redis, RabbitMQ or Stub broker; Dramatiq's global broker is neither made nor touched.
        config_or_migrator: What to work with. A ``Config``, or a function that returns a ``Migrator``, is turned into
            one in each process, and is what to give where worker processes are forked. Of a function, ``heal_interval``
            is not known here: its workers beat every 30 s.
        queue_name: The Dramatiq queue.
        prefix: Before the names of actors; a second application on the same broker needs its own.

    Raises:
        ConfigInvalidError: A name that Dramatiq does not accept, or this was called for the broker already.
    """

    def make_handler(queue: DramatiqQueue) -> BackgroundHandler:
        """What a worker process works with; called in it."""
        migrator = _migrator(config_or_migrator)
        return BackgroundProcessor(
            migrator.background.engine, queue, owner=migrator.owner, settings=migrator.queue_settings
        )

    interval = _heal_interval(config_or_migrator)
    return declare(broker, make_handler, queue_name=queue_name, prefix=prefix, heal_interval=interval)


def open_queue(broker_url: str, migrator: Migrator, *, queue_name: str = DEFAULT_QUEUE) -> DramatiqQueue:
    """Connect, to send hints.

    Raises:
        ConfigInvalidError: The URL is wrong.
        ConnectionFailedError: The broker does not answer.
    """
    require_answer(broker_url)
    return setup(broker_from_url(broker_url), migrator, queue_name=queue_name)


def _heal_interval(given: Config | Migrator | Callable[[], Migrator]) -> float:
    if isinstance(given, Config):
        return given.heal_interval
    return given.config.heal_interval if isinstance(given, Migrator) else HEAL_INTERVAL


def _migrator(given: Config | Migrator | Callable[[], Migrator]) -> Migrator:
    if isinstance(given, Config):
        return Migrator(given)
    return given if isinstance(given, Migrator) else given()
