"""An index on version and ``_id`` that is there, or not, or not yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from random import Random
from typing import Any

from attrs import define

from migronaut.core.ports import Batch, PortError, Settled
from migronaut.core.state import Cursor, Scope
from migronaut.memory.database import MemoryServer
from migronaut.memory.documents import MemoryDocuments
from migronaut.simulation.actor import Actor
from migronaut.simulation.scheduler import Scheduler

_BUILDING_TAKES = (2.0, 30.0, 200.0)


class Built(Enum):
    """How far an index is."""

    ABSENT = auto()
    BUILDING = auto()
    """The server lists it already, and refuses to use it."""
    READY = auto()


@define(eq=False)
class Index:
    """The one index of the collection that is migrated."""

    state: Built = Built.READY


class HintedDocuments(MemoryDocuments):
    """Reads by an index as long as it was listed once, as the adapter of MongoDB does.

    Args:
        index: Of the collection.
        used: The migration chooses its documents by version, so that it has a use for the index.
    """

    def __init__(self, server: MemoryServer, collection: str, *, index: Index, used: bool) -> None:
        super().__init__(server, collection)
        self._index = index
        self._used = used
        self._hinted: bool | None = None

    def indexed(self) -> bool:
        """Whether it was listed, or none is needed."""
        return not self._used or self._hint()

    def count(
        self,
        match: Mapping[str, Any],
        *,
        limit: int,
        without: Sequence[Any] = (),
        timeout: float | None = None,
        since: Settled | None = None,
    ) -> int:
        """Count by the index."""
        self._go_by_index()
        return super().count(match, limit=limit, without=without, timeout=timeout, since=since)

    def read(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """Read by the index."""
        self._go_by_index()
        return super().read(match, scope, after=after, limit=limit, without=without)

    def _go_by_index(self) -> None:
        if self._used and self._hint() and self._index.state is not Built.READY:
            raise PortError("server error 2 (BadValue)")

    def _hint(self) -> bool:
        if self._hinted is None:
            self._hinted = self._index.state is not Built.ABSENT
        return self._hinted


def administrator(index: Index, scheduler: Scheduler, random: Random) -> Actor:
    """Creates the index, and drops it again."""

    def finish() -> None:
        if index.state is Built.BUILDING:
            index.state = Built.READY

    def body() -> None:
        for _ in range(8):
            scheduler.rest(random.choice((1.0, 10.0, 60.0)))
            if index.state is Built.ABSENT:
                scheduler.seen["index: build"] += 1
                index.state = Built.BUILDING
                scheduler.timeline.at(random.choice(_BUILDING_TAKES), finish)
            else:
                scheduler.seen["index: drop"] += 1
                index.state = Built.ABSENT
            scheduler.point("index")

    return Actor("administrator", body, mortal=False, eager=True)
