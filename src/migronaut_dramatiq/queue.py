"""The queue's port on one actor of one Dramatiq broker."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

from dramatiq import Actor, Message

from migronaut.core.jobs import Hint
from migronaut.core.tickets import MAX_DELAY, ContinueLater, WaitForLanes
from migronaut.queueing import row
from migronaut_dramatiq.brokers import broker_errors
from migronaut_dramatiq.stopping import WorkerStop

_DYING = 2.0
"""Seconds that a message of a stopping worker stays away: the worker itself takes messages a little longer."""

_LOGGER = logging.getLogger("migronaut.dramatiq")


class DramatiqQueue:
    """Sends hints as messages of one actor; implements ``QueuePort[dramatiq.Message]``.

    Args:
        actor: The actor, which knows its broker and its queue.
        stopping: Set by the worker's middleware.
    """

    def __init__(self, actor: Actor[..., None], stopping: WorkerStop) -> None:
        self.actor = actor
        self._stopping = stopping

    @property
    def stopping(self) -> WorkerStop:
        """Set while this worker shuts down."""
        return self._stopping

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send hints, due now.

        Raises:
            ConnectionFailedError: The broker did not take one; those before it are sent.
        """
        for hint in hints:
            self._send(hint)

    def continue_later(self, job: Message[Any], directive: ContinueLater) -> None:
        """Send the next message of this job; the present one ends.

        Raises:
            ConnectionFailedError: The broker did not take it; the heal sends it again.
        """
        self._send(directive.hint, delay=directive.delay)

    def wait_for_lanes(self, job: Message[Any], directive: WaitForLanes) -> None:
        """Send the children, then the poll of the parent itself.

        Raises:
            ConnectionFailedError: The broker did not take one; the heal sends the rest.
        """
        self.enqueue(directive.children)
        self._send(directive.hint, delay=directive.poll)

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Send the coordinator's hint, due now; its poll finds nothing left to do when it arrives.

        Raises:
            ConnectionFailedError: The broker did not take it; the poll or the heal wakes the coordinator.
        """
        self._send(hint)

    def annotate(self, job: Message[Any], *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Log a line, and progress for debugging: Dramatiq keeps nothing on a job."""
        name = _name(job)
        if log is not None:
            _LOGGER.info("%s: %s", name, row(log))
        if progress is not None:
            _LOGGER.debug("%s: %s", name, row(dict(progress)))

    def message(self, hint: Hint) -> Message[None]:
        """Make the message of a hint without sending it; the hint's own id is for those who read the broker."""
        return self.actor.message_with_options(kwargs=hint.body(), migronaut_hint=hint.id)

    def _send(self, hint: Hint, *, delay: float = 0.0) -> None:
        with broker_errors(self.actor.broker):
            self.actor.broker.enqueue(self.message(hint), delay=self._milliseconds(delay))

    def _milliseconds(self, delay: float) -> int | None:
        """None, not 0, for now: 0 would go through the delay queue all the same."""
        floor = _DYING if self._stopping.is_set() else 0.0
        return math.ceil(1000 * min(max(delay, floor), MAX_DELAY)) or None


def _name(job: object) -> str:
    """What a job is called in the log; a row must not fail for want of it."""
    return row(job.options.get("migronaut_hint", job.message_id)) if isinstance(job, Message) else "unknown job"
