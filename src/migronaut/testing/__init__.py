"""For users' own tests: a migration run over documents in memory, without a server, threads or waiting.

Here lives what users import; ``contracts`` are the suites of the ports, for whoever implements one. Not
here: the ports in memory themselves (``memory``), the whole engine under faults (``simulation``).
"""

from migronaut.memory import FakeClock, MemoryCollection, MemoryServer, QueryUnsupportedError
from migronaut.testing.harness import MemoryEngine, Migrated, migrate_in_memory

__all__ = [
    "FakeClock",
    "MemoryCollection",
    "MemoryEngine",
    "MemoryServer",
    "Migrated",
    "QueryUnsupportedError",
    "migrate_in_memory",
]
