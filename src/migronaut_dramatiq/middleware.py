"""Dramatiq's one extension point: the life of a worker, and the message an actor works for."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from attrs import frozen
from dramatiq import Broker, Message, MessageProxy, Middleware, Worker

from migronaut_dramatiq.admission import refusal_of, refuse
from migronaut_dramatiq.queue import DramatiqQueue
from migronaut_dramatiq.ticker import Ticker

_LAST_BEAT = 5.0
"""Seconds that a worker which shuts down waits for the beat it is in; whatever is cut off is healed elsewhere."""

_LOGGER = logging.getLogger("migronaut.dramatiq")
_MESSAGE: ContextVar[Message[Any] | None] = ContextVar("migronaut_dramatiq_message", default=None)


def current_message() -> Message[Any]:
    """Return the message that the calling actor works for.

    Raises:
        LookupError: Nobody processes a message here.
    """
    message = _MESSAGE.get()
    if message is None:
        raise LookupError("This actor was called as a function; send it a message instead.")
    return message


@frozen
class _Attached:
    queue: DramatiqQueue
    ticker: Ticker

    def is_served_by(self, worker: Worker) -> bool:
        """Whether the worker listens to the queue; a worker of other queues opens no MongoDB for us."""
        return not worker.consumer_whitelist or self.queue.actor.queue_name in worker.consumer_whitelist


class MigronautMiddleware(Middleware):
    """Follows the worker of one broker, for every migronaut queue on it."""

    def __init__(self) -> None:
        self._attached: dict[str, _Attached] = {}

    def attach(self, queue: DramatiqQueue, ticker: Ticker) -> None:
        """Set the stop of ``queue`` and run ``ticker`` from now on."""
        self._attached[queue.actor.actor_name] = _Attached(queue, ticker)

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Forget the stop of an earlier worker in this process."""
        for attached in self._attached.values():
            attached.queue.stopping.clear()

    def after_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Begin to beat."""
        for attached in self._attached.values():
            if attached.is_served_by(worker):
                attached.ticker.start()

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Ask lanes to stop at their next batch."""
        for attached in self._attached.values():
            attached.queue.stopping.set()
            attached.ticker.end()

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Let the last beat end."""
        for attached in self._attached.values():
            attached.ticker.join(_LAST_BEAT)

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Keep the message for the actor that is about to run in this thread; refuse one that is not ours."""
        attached = self._attached.get(message.actor_name)
        if attached is None:
            return
        queue_name = attached.queue.actor.queue_name
        why = refusal_of(message, broker=broker, queue_name=queue_name)
        if why is None:
            _MESSAGE.set(message.copy())
            return
        _LOGGER.error(
            "A message of %s was refused, nothing of it was run, and it is a dead letter now. %s",
            message.actor_name,
            why,
        )
        refuse(message, why, queue_name=queue_name)

    def after_process_message(
        self, broker: Broker, message: MessageProxy, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        """Let go of the message."""
        _MESSAGE.set(None)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Let go of the message."""
        _MESSAGE.set(None)


def middleware_of(broker: Broker) -> MigronautMiddleware:
    """Return the broker's middleware of ours; added when it has none."""
    for middleware in broker.middleware:
        if isinstance(middleware, MigronautMiddleware):
            return middleware
    added = MigronautMiddleware()
    # Before all others: they obey the options of a message.
    first = type(broker.middleware[0]) if broker.middleware else None
    broker.add_middleware(added, before=first)
    return added
