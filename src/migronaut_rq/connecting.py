"""From a URL to a connection that RQ can work with."""

from __future__ import annotations

import logging

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from migronaut.errors import ConfigInvalidError
from migronaut_rq.broker import place, speaking

_CONNECT_TIMEOUT = 5.0
_LOGGER = logging.getLogger("migronaut.rq")


def connect(redis_url: str) -> Redis:
    """A connection to a server that has answered.

    Raises:
        ConfigInvalidError: The URL is not one of Redis, or asks for what RQ cannot work with.
        ConnectionFailedError: Redis did not answer, or refused.
    """
    try:
        connection = Redis.from_url(redis_url, socket_connect_timeout=_CONNECT_TIMEOUT)
        probe = Redis.from_url(
            redis_url,
            socket_connect_timeout=_CONNECT_TIMEOUT,
            socket_timeout=_CONNECT_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        raise ConfigInvalidError(
            "The URL of Redis is not valid; write redis://host:6379/0, with user and password percent-encoded."
        ) from None
    require_bytes(connection)
    with speaking(probe):
        _ask(probe)
    probe.close()
    _LOGGER.debug("Connected to %s.", place(connection))
    return connection


def require_bytes(connection: Redis) -> None:
    """See that a connection gives back what is stored, as bytes.

    Raises:
        ConfigInvalidError: It decodes: jobs are compressed, and no text.
    """
    settings = connection.connection_pool.connection_kwargs
    # Of a URL it is a text: ``false`` decodes as well.
    if settings.get("decode_responses") or str(settings.get("encoding", "utf-8")).lower() not in {"utf-8", "utf8"}:
        raise ConfigInvalidError(
            "RQ cannot work over a connection to Redis that decodes: leave decode_responses and encoding out of its "
            "URL, or of its settings."
        )


def _ask(probe: Redis) -> None:
    try:
        probe.ping()
    except TypeError:  # an option that only a new connection looks at
        raise ConfigInvalidError("An option in the URL of Redis is not one of redis-py; leave it out.") from None
