"""Ports in memory, for tests without a server: same contract, one shared server, a clock that you move."""

from migronaut.testing.clock import FakeClock
from migronaut.testing.collection import MemoryCollection
from migronaut.testing.documents import MemoryDocuments
from migronaut.testing.harness import MemoryEngine, Migrated, migrate_in_memory
from migronaut.testing.locks import MemoryLocks
from migronaut.testing.query import QueryUnsupportedError
from migronaut.testing.server import MemoryServer
from migronaut.testing.store import MemoryStore
from migronaut.testing.tickets import MemoryTickets

__all__ = [
    "FakeClock",
    "MemoryCollection",
    "MemoryDocuments",
    "MemoryEngine",
    "MemoryLocks",
    "MemoryServer",
    "MemoryStore",
    "MemoryTickets",
    "Migrated",
    "QueryUnsupportedError",
    "migrate_in_memory",
]
