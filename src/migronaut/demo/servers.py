"""Where the demo happens: servers from the wheels, or a database of its own on the user's server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from attrs import frozen

from migronaut.demo.options import DemoOptions, QueueKind
from migronaut.embedded import EmbeddedMongo, EmbeddedValkey
from migronaut.mongo.connection import connect

_EMBEDDED_DB = "shop"
_OWN_PREFIX = "migronaut_demo_"


@frozen(kw_only=True)
class Place:
    """Addresses.

    Args:
        uri: Of MongoDB; may hold credentials, never to be shown unless it is the demo's own server.
        broker_url: Of Valkey; None without a queue.
    """

    uri: str
    db: str
    broker_url: str | None = None


@contextmanager
def open_place(options: DemoOptions) -> Iterator[Place]:
    """Start what is needed; everything ends with the block, the database on a user's server too unless it is kept.

    Raises:
        EmbeddedServerError: The wheels are not installed, or a server does not start.
        ConnectionFailedError, ConfigInvalidError: The user's server does not answer, or its URI cannot be used.
    """
    with ExitStack() as stack:
        place = _foreign(options, options.uri, stack) if options.uri else _embedded(stack)
        if options.queue is QueueKind.NONE:
            yield place
            return
        valkey = stack.enter_context(EmbeddedValkey())
        yield Place(uri=place.uri, db=place.db, broker_url=valkey.url)


def _embedded(stack: ExitStack) -> Place:
    return Place(uri=stack.enter_context(EmbeddedMongo()).uri, db=_EMBEDDED_DB)


def _foreign(options: DemoOptions, uri: str, stack: ExitStack) -> Place:
    db = f"{_OWN_PREFIX}{secrets.token_hex(4)}"
    client = stack.enter_context(connect(uri))
    if not options.keep:
        stack.callback(client.drop_database, db)
    return Place(uri=uri, db=db)
