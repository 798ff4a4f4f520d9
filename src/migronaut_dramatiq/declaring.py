"""One actor on the broker that is given: what it is called, how it runs, what it runs."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import Any

from dramatiq import Actor, Broker, Message

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.errors import BackgroundFailedError, ConfigInvalidError, MigronautError
from migronaut.queueing import Handler, perform
from migronaut_dramatiq.brokers import require_bytes
from migronaut_dramatiq.middleware import current_message, middleware_of
from migronaut_dramatiq.queue import DramatiqQueue
from migronaut_dramatiq.stopping import WorkerStop
from migronaut_dramatiq.ticker import Ticker

DEFAULT_QUEUE = "migronaut-background"
DEFAULT_PREFIX = "migronaut."
HEAL_INTERVAL = 30.0

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9._-]*")
"""What Dramatiq accepts as the name of a queue."""

_HOUR = 3_600_000
_OPTIONS = {
    # A broker's own Retries may bring a predicate, which would count more than max_retries.
    "max_retries": 0,
    "retry_when": None,
    "max_age": None,
    "notify_shutdown": False,
    "store_results": False,
    # The longest slice is an hour; interrupting a thread is the last resort against one that hangs.
    "time_limit": 2 * _HOUR,
}


BackgroundHandler = Handler[Message[Any]]
"""What a message is handed to: a ``BackgroundProcessor``, or a stand-in of a test."""


def declare(
    broker: Broker,
    make_handler: Callable[[DramatiqQueue], BackgroundHandler],
    *,
    queue_name: str = DEFAULT_QUEUE,
    prefix: str = DEFAULT_PREFIX,
    heal_interval: float = HEAL_INTERVAL,
) -> DramatiqQueue:
    """Declare the actor for background jobs on a broker, and follow the broker's worker.

    Args:
        make_handler: Makes the handler of a process, when its first job or beat needs it.
        heal_interval: Seconds between two beats of a worker.

    Raises:
        ConfigInvalidError: A name that Dramatiq does not accept, an actor of this name is there already, or the broker
            gets its messages decoded.
    """
    require_bytes(broker)
    actor_name = f"{prefix}background"
    _check(broker, queue_name=queue_name, actor_name=actor_name)

    def background(**payload: Any) -> None:
        """The actor: one job."""
        _run(handlers.get(), queue, payload)

    def beat() -> None:
        """Heal and look for drift, where it is time; called by a thread of the worker, without a message."""
        handlers.get().handle(verify.body(), queue.message(verify))

    middleware = middleware_of(broker)
    options = {name: value for name, value in _OPTIONS.items() if name in broker.actor_options}
    actor = Actor(background, broker=broker, actor_name=actor_name, queue_name=queue_name, priority=0, options=options)
    queue = DramatiqQueue(actor, WorkerStop())
    handlers = _PerProcess(lambda: make_handler(queue))
    verify = Hint(id="migronaut-beat", payload=VerifyJob())
    middleware.attach(queue, Ticker(beat, interval=heal_interval))
    return queue


class _PerProcess:
    """A handler for each process, made when first needed: no connection to MongoDB crosses a fork."""

    def __init__(self, make: Callable[[], BackgroundHandler]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[int, BackgroundHandler] | None = None

    def get(self) -> BackgroundHandler:
        """The handler of the calling process."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make())
            return self._made[1]


def _run(handler: BackgroundHandler, queue: DramatiqQueue, payload: dict[str, Any]) -> None:
    """Do a job, send what follows, and only then let its error out: for Dramatiq's log and its dead letters."""
    message = current_message()
    try:
        directive = handler.handle(payload, message)
        perform(queue, message, directive)
        error = directive.error
    except Exception as raised:  # raised again below, without what it may quote
        error = raised
    if error is not None:
        raise _presentable(error).with_traceback(error.__traceback__) from None


def _presentable(error: BaseException) -> BaseException:
    """Our own errors, and interrupts, as they are; the text of any other may quote a document."""
    if isinstance(error, MigronautError) or not isinstance(error, Exception):
        return error
    return BackgroundFailedError(
        f"A background job failed with {type(error).__name__}; the trace names the place, "
        "and migronaut background status says how it goes on."
    )


def _check(broker: Broker, *, queue_name: str, actor_name: str) -> None:
    for what, name in (("queue", queue_name), ("actor", actor_name)):
        if not _NAME.fullmatch(name):
            raise ConfigInvalidError(
                f"Dramatiq cannot use this name of a {what}; begin with a letter or an underscore, "
                "and go on with letters, digits, dots, dashes and underscores."
            )
    if actor_name in broker.actors:
        raise ConfigInvalidError(
            f"The broker has an actor {actor_name} already; call setup once for a broker, or give another prefix."
        )
