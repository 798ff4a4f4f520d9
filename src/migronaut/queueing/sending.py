"""From a directive to what the queue does. A failed send is a warning: the ticket is written, the heal sends again."""

from __future__ import annotations

import logging
from typing import Protocol, TypeVar

from migronaut.core.jobs import Hint
from migronaut.core.ports import PortError, QueuePort, Tickets
from migronaut.core.tickets import ContinueLater, Directive, Finish, Ticket, WaitForLanes
from migronaut.errors import redact

Job = TypeVar("Job", contravariant=True)

_LOGGER = logging.getLogger("migronaut.queueing")


class Handler(Protocol[Job]):
    """What a port's worker calls for each job: ``BackgroundProcessor``, or a stand-in of a test."""

    def handle(self, payload: object, job: Job) -> Directive:
        """Do what the payload asks for and say what the job becomes.

        Raises:
            QueueJobInvalidError: The payload is not one of ours; nothing was run.
        """


def perform(port: QueuePort[Job], job: Job, directive: Directive) -> object:
    """Do what a directive says.

    Returns:
        What the job function must return to the library. None as well when the queue did not take it:
        the ticket is written already, and the heal sends its hint again.
    """
    try:
        match directive:
            case Finish():
                return None
            case ContinueLater():
                return port.continue_later(job, directive)
            case WaitForLanes():
                return port.wait_for_lanes(job, directive)
    except Exception as error:  # whatever a queue library raises, the work is safe in its ticket
        warn_unsent(error)
        return None


def warn_unsent(error: Exception) -> None:
    """Log that hints did not reach the queue."""
    _LOGGER.warning(
        "The queue did not take a hint (%s: %s); its ticket is stored and the heal will send it again.",
        type(error).__name__,
        redact(error),
    )


def addressed(tickets: Tickets, ticket: Ticket) -> Hint:
    """The hint to send for a ticket.

    Its id is noted on the ticket before it is sent: noted afterwards, a fast worker could have gone on
    already, and nobody could wake that job early.
    """
    try:
        tickets.sent(ticket, ticket.hint.id)
    except PortError as error:
        _LOGGER.debug("The id of a hint was not noted (%s); a poll will wake its job.", type(error).__name__)
    return ticket.hint
