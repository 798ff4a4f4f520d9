"""The MongoDB that is measured: the one from the wheel, with the memory that a MongoDB takes by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient

from benchmarks.machine import memory_bytes
from migronaut.embedded import EmbeddedMongo

_MB = 2**20
_SMALLEST_CACHE = 256 * _MB
_OPLOG_MB = 990.0


@contextmanager
def measured_server() -> Iterator[tuple[str, MongoClient[Any]]]:
    """A one-member replica set in a temporary directory, as its URI and a client; gone afterwards."""
    with EmbeddedMongo() as server, MongoClient[Any](server.uri) as client:
        # The embedded server is kept small for tests. Here it gets what a server has that was set up by default.
        cache = default_cache()
        setting = f"cache_size={cache // _MB}M"
        client.admin.command({"setParameter": 1, "wiredTigerEngineRuntimeConfig": setting})
        client.admin.command({"replSetResizeOplog": 1, "size": _OPLOG_MB})
        yield server.uri, client


def default_cache() -> int:
    """Bytes that WiredTiger takes where nobody says: half of the memory beyond the first GiB."""
    return max(_SMALLEST_CACHE, (memory_bytes() - 1024 * _MB) // 2)
