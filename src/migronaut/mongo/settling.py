"""What no failover can undo: a barrier, and counting behind it.

A primary may have written, and may answer from, what is lost when another member takes over. So a verdict that nothing
takes back rests on reads of what a majority has, and on none that are older than the barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen
from bson.timestamp import Timestamp
from pymongo import WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern

from migronaut.core.ports import Settled, UnavailableError, WriteTooSlowError
from migronaut.mongo.connection import translating

_WITHIN = 10_000
"""Milliseconds that a majority may take."""


@frozen(kw_only=True)
class MongoSettled(Settled):
    """The moment of a barrier by the server's own count; a standalone server has none."""

    operation_time: Timestamp | None
    cluster_time: Any


def settle(collection: Collection[Any]) -> MongoSettled:
    """Wait until a majority has all that the primary has written so far.

    A write that changes nothing waits for the last one before it on its primary, and proves that this is the primary
    still. It reaches one shard of a sharded collection at least; the others wait in ``seen_since``, as each does not
    answer before a majority of its own has got as far as this moment.

    Raises:
        UnavailableError: No majority has acknowledged it within 10 seconds.
    """
    acknowledged = collection.with_options(write_concern=WriteConcern("majority", wtimeout=_WITHIN, j=True))
    try:
        with translating(), collection.database.client.start_session(causal_consistency=True) as session:
            acknowledged.update_many({"_id": {"$in": []}}, {"$unset": {"nothing": ""}}, session=session)
            return MongoSettled(operation_time=session.operation_time, cluster_time=session.cluster_time)
    except WriteTooSlowError as error:  # the client's own limit of time was shorter
        raise UnavailableError(str(error)) from None


@contextmanager
def seen_since(
    collection: Collection[Any], settled: Settled | None
) -> Iterator[tuple[Collection[Any], ClientSession | None]]:
    """A collection and a session that show what a majority has, of that moment or a later one.

    Args:
        settled: None = as the collection is, without a session.
    """
    if settled is None:
        yield collection, None
        return
    with collection.database.client.start_session(causal_consistency=True) as session:
        if isinstance(settled, MongoSettled) and settled.operation_time is not None:
            session.advance_cluster_time(settled.cluster_time)
            session.advance_operation_time(settled.operation_time)
        yield collection.with_options(read_concern=ReadConcern("majority")), session
