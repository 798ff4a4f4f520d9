"""What the parts of the store share: the server, and its partitions."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from migronaut.core.ports import Pass
from migronaut.core.state import Partition
from migronaut.memory.database import MemoryServer


class StoreRecords:
    """The states, partitions and leases of a ``MemoryServer``; each call of a port is one atomic step."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def _all(self, background: str) -> list[Partition]:
        found = (partition for partition in self._server.partitions.values() if partition.background == background)
        return sorted(found, key=lambda partition: (partition.generation, partition.seq))

    def _of(self, work: Pass) -> list[Partition]:
        wanted = (work.generation, work.plan)
        return [
            partition for partition in self._all(work.background) if (partition.generation, partition.plan) == wanted
        ]

    def _put(self, partition: Partition, **changes: Any) -> Partition:
        self._server.partitions[partition.id] = changed = evolve(partition, **changes)
        return changed
