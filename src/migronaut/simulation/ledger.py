"""What really happened to documents, seen where they are written, and what must be true of every write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from attrs import define, field, frozen

from migronaut.core.state import Direction, Guard
from migronaut.memory.clock import FakeClock
from migronaut.memory.database import MemoryServer
from migronaut.memory.durability import Mark
from migronaut.memory.server.collection import MemoryCollection, Stored
from migronaut.memory.server.order import Key
from migronaut.simulation.scenario import COLLECTIONS, STEPS, Scenario
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.shapes import ends_of, migrated, shape_of
from migronaut.simulation.violation import Violation

APPLICATION = "application"
Observer = Callable[[str, Key, Mapping[str, Any] | None, Mapping[str, Any] | None], None]


class ObservedServer(MemoryServer):
    """A server whose collections tell of each write."""

    def __init__(self, *, clock: FakeClock, random: Random, transactions: bool) -> None:
        super().__init__(clock=clock, random=random, transactions=transactions)
        self.observer: Observer = lambda name, key, before, after: None
        self._observed: dict[str, MemoryCollection] = {}

    def collection(self, name: str) -> MemoryCollection:
        """A collection; created on first use."""
        if name not in self._observed:
            self._observed[name] = _ObservedCollection(self, name)
        return self._observed[name]


class _ObservedCollection(MemoryCollection):
    def __init__(self, server: ObservedServer, name: str) -> None:
        super().__init__(lock=server.lock, max_size=lambda: server.max_document_size, durability=server.durability)
        self._server = server
        self._name = name

    def change(self, before: Mapping[Key, Stored], after: Mapping[Key, Stored | None]) -> None:
        """Note what a commit writes, then write it."""
        previous = {key: before.get(key) for key in after}
        super().change(before, after)
        for key, stored in after.items():
            self._server.observer(self._name, key, _document(previous[key]), _document(stored))


def _document(stored: Stored | None) -> Mapping[str, Any] | None:
    return None if stored is None else stored.document


@frozen
class Came:
    """When a document came into the shape that it has, and whether it was the application that gave it."""

    step: int
    by_application: bool


_FROM_THE_BEGINNING = Came(-1, by_application=True)


@define(eq=False)
class Ledger:
    """The truth that states, counters and documents are compared with.

    Args:
        happened: By migration and name of a counter: the most that it may say.
        written: By migration: documents that its lanes have written, without what a failover has undone.
        writing: By actor: the migration that it writes documents for, and which way.
        came: By collection and key.
        last: By collection: up to where the log holds its documents.
    """

    server: MemoryServer
    scenario: Scenario
    scheduler: Scheduler
    may_write: Callable[[str], None] = field(default=lambda name: None)
    happened: Counter[tuple[str, str]] = field(factory=Counter)
    written: Counter[str] = field(factory=Counter)
    writing: dict[str, tuple[str, Direction]] = field(factory=dict)
    came: dict[tuple[str, Key], Came] = field(factory=dict)
    last: dict[str, Mark] = field(factory=dict)

    def observe(
        self, collection: str, key: Key, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """One write of one document, by whoever has the turn."""
        actor = self.scheduler.current.name
        self.last[collection] = self.server.durability.mark()
        if after is not None and (before is None or shape_of(before) != shape_of(after)):
            self._came(collection, key, by_application=actor == APPLICATION)
        if actor == APPLICATION:
            self._application_wrote(collection, before, after)
        else:
            self._engine_wrote(actor, before, after)

    def at_risk(self, collection: str) -> bool:
        """Whether a failover may undo a write of a document."""
        return collection in self.last and self.server.durability.at_risk(self.last[collection])

    def since(self, collection: str, key: Key) -> Came:
        """When a document came into its shape."""
        return self.came.get((collection, key), _FROM_THE_BEGINNING)

    def _came(self, collection: str, key: Key, *, by_application: bool) -> None:
        place = collection, key
        previous = self.since(*place)
        self.came[place] = Came(self.scheduler.steps, by_application)
        self.server.durability.also(lambda: self.came.__setitem__(place, previous))

    def _application_wrote(
        self, collection: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        if before is None or (after is not None and shape_of(before) == shape_of(after)):
            return
        for name in self.scenario.names:
            if COLLECTIONS[name] == collection and shape_of(before) in {STEPS[name], STEPS[name] + 1}:
                # A lane that finds it in the new shape cannot always tell its own write from this one.
                self.happened[name, "migrated"] += 1

    def _engine_wrote(self, actor: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        if before is None or after is None:
            self._wrong("a lane wrote a document that the application had deleted, or deleted one")
            return
        name, direction = self.writing[actor]
        self.may_write(name)
        self.happened[name, "migrated"] += 1
        self.written[name] += 1
        self.server.durability.also(lambda: self.written.subtract([name]))
        source, target = ends_of(STEPS[name], direction)
        if shape_of(before) != source:
            self._wrong("a lane migrated a document that was migrated already", invariant="once")
        else:
            self._compare(before, after, source, target)

    def _compare(self, before: Mapping[str, Any], after: Mapping[str, Any], source: int, target: int) -> None:
        scenario = self.scenario
        expected = migrated(before, source, target, revisions=scenario.revisions, versioned=scenario.versioned)
        # This guard does not see a document that went to the new shape and back: what it replaces is as good.
        ignored = {"done"} if scenario.guard is Guard.VERSION else set()
        wrong = [
            name
            for name in sorted({*expected, *after} - ignored)
            if expected.get(name) != after.get(name) or (name in expected) != (name in after)
        ]
        if wrong:
            self._wrong(f"a write of the application is lost: a lane wrote another {', '.join(wrong)}")

    def _wrong(self, text: str, *, invariant: str = "application writes") -> None:
        self.scheduler.violated(Violation(invariant, text))
