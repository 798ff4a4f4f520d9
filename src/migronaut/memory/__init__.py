"""The ports in memory: the same contract as ``mongo``, one shared server, a clock that only its owner moves.

Here lives one implementation of every port, under the file names of ``mongo``; ``server`` is the part of MongoDB's
query and update language that they need. Not here: what users' tests call (``testing``), faults (``simulation``), the
queue (``queueing.memory``).
"""

from migronaut.memory.clock import FakeClock
from migronaut.memory.database import MemoryServer
from migronaut.memory.documents import MemoryDocuments
from migronaut.memory.locks import MemoryLocks
from migronaut.memory.server.collection import MemoryCollection
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.store import MemoryStore
from migronaut.memory.tickets import MemoryTickets

__all__ = [
    "FakeClock",
    "MemoryCollection",
    "MemoryDocuments",
    "MemoryLocks",
    "MemoryServer",
    "MemoryStore",
    "MemoryTickets",
    "QueryUnsupportedError",
]
