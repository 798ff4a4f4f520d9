"""Errors of Redis as ours: one sentence, without credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import RedisError

from migronaut.errors import ConnectionFailedError, redact


def place(connection: Redis) -> str:
    """Where a connection leads, without user and password."""
    settings = connection.connection_pool.connection_kwargs
    if "path" in settings:
        return f"unix://{settings['path']}"
    return f"redis://{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db') or 0}"


@contextmanager
def speaking(connection: Redis) -> Iterator[None]:
    """Turn errors of Redis into ours.

    Raises:
        ConnectionFailedError: Redis did not answer, or refused.
    """
    try:
        yield
    except RedisError as error:
        where = place(connection)
        raise ConnectionFailedError(
            f"Redis at {where} did not answer or refused ({type(error).__name__}: {redact(error)}). "
            "Start it, or correct its URL.",
            broker=where,
        ) from None
