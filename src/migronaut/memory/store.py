"""The ``Store`` port in memory."""

from __future__ import annotations

from migronaut.memory.leases import Leases
from migronaut.memory.partitions import Partitions
from migronaut.memory.states import Clocks, States


class MemoryStore(States, Partitions, Leases, Clocks):
    """The states, partitions and leases of a ``MemoryServer``."""
