"""Which messages of our actor are ours.

Whoever can write to the broker can send any message. Dramatiq runs declared actors only, but a message may bring
options along that count more than the actor's: other actors to call, messages to send on, retries without end.
"""

from __future__ import annotations

from dramatiq import Broker, MessageProxy

from migronaut.core.jobs import parse_payload
from migronaut.errors import QueueJobInvalidError

_ACKNOWLEDGING = "redis_message_id"
"""The option by which a broker on Redis knows what it acknowledges."""
_GROUPS = {"group_completion_uuid", "group_completion_callbacks"}


def refusal_of(message: MessageProxy, *, broker: Broker, queue_name: str) -> str | None:
    """Why a message of our actor must not be processed, in one sentence; None for one of ours."""
    if message.queue_name != queue_name:
        return "It names another queue."
    if message.args:
        return "It has arguments beside its payload."
    if not (broker.actor_options | _GROUPS).isdisjoint(message.options):
        return "It has options that change how it is processed, and ours have none."
    try:
        parse_payload(message.kwargs)
    except QueueJobInvalidError as error:
        return error.message
    return None


def refuse(message: MessageProxy, why: str, *, queue_name: str) -> None:
    """Make a message a dead letter, without any middleware obeying it."""
    for option in set(message.options) - {_ACKNOWLEDGING}:
        del message.options[option]
    # A worker looks the consumer up by this name; one that it does not know would end its thread.
    setattr(message, "queue_name", queue_name)  # noqa: B010 - declared for types, and not there to be set
    message.stuff_exception(QueueJobInvalidError(why))
    message.fail()
