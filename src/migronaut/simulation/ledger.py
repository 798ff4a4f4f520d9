"""What really happened to documents, seen where they are written, and what must be true of every write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field

from migronaut.core.state import Guard
from migronaut.memory.clock import FakeClock
from migronaut.memory.database import MemoryServer
from migronaut.memory.server.collection import MemoryCollection, Stored
from migronaut.memory.server.order import Key
from migronaut.simulation.scenario import Scenario
from migronaut.simulation.scheduler import Scheduler
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
        super().__init__(lock=server.lock, max_size=lambda: server.max_document_size)
        self._server = server
        self._name = name

    def change(self, before: Mapping[Key, Stored], after: Mapping[Key, Stored | None]) -> None:
        previous = {key: before.get(key) for key in after}
        super().change(before, after)
        for key, stored in after.items():
            self._server.observer(self._name, key, _document(previous[key]), _document(stored))


def _document(stored: Stored | None) -> Mapping[str, Any] | None:
    return None if stored is None else stored.document


@define(eq=False)
class Ledger:
    """The truth that states, counters and documents are compared with.

    Args:
        happened: By collection and name of a counter: the most that it may say.
        old_since: Step at which a document came into the old shape.
    """

    scenario: Scenario
    scheduler: Scheduler
    happened: Counter[tuple[str, str]] = field(factory=Counter)
    old_since: dict[tuple[str, Key], int] = field(factory=dict)

    def observe(
        self, collection: str, key: Key, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """One write of one document, by whoever has the turn."""
        if self.scheduler.current.name == APPLICATION:
            self._application_wrote(collection, key, before, after)
        else:
            self.happened[collection, "migrated"] += 1
            self.happened[collection, "written"] += 1
            self._engine_wrote(before, after)

    def _application_wrote(
        self, collection: str, key: Key, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        if after is not None and is_old(after):
            if before is None or not is_old(before):
                self.old_since[collection, key] = self.scheduler.steps
        elif before is not None and is_old(before):
            # A lane that finds it in the new shape cannot always tell its own write from this one.
            self.happened[collection, "migrated"] += 1

    def _engine_wrote(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        if before is None or after is None:
            self._wrong("a lane wrote a document that the application had deleted, or deleted one")
        elif not is_old(before):
            self._wrong("a lane migrated a document that was migrated already", invariant="once")
        else:
            expected = migrated(before, revisions=self.scenario.revisions, versioned=self.scenario.versioned)
            # This guard does not see a document that went to the new shape and back: what it replaces is as good.
            ignored = {"done"} if self.scenario.guard is Guard.VERSION else set()
            wrong = [
                name
                for name in sorted({*expected, *after} - ignored)
                if expected.get(name) != after.get(name) or (name in expected) != (name in after)
            ]
            if wrong:
                self._wrong(f"a write of the application is lost: a lane wrote another {', '.join(wrong)}")

    def _wrong(self, text: str, *, invariant: str = "application writes") -> None:
        self.scheduler.violated(Violation(invariant, text))


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether a document of the simulation is in the old shape."""
    return "old" in document


def migrate(document: dict[str, Any]) -> dict[str, Any]:
    """The transform of the simulated migrations."""
    document["new"] = document.pop("old") + 100
    document["done"] += 1
    return document


PIPELINE: Sequence[Mapping[str, Any]] = (
    {"$set": {"new": {"$add": ["$old", 100]}, "done": {"$add": ["$done", 1]}}},
    {"$unset": "old"},
)
"""What ``migrate`` does, for the server."""


def migrated(document: Mapping[str, Any], *, revisions: bool, versioned: bool) -> dict[str, Any]:
    """What a lane must make of a stored document."""
    after = migrate(dict(document))
    if versioned:
        after["schema_version"] = 2
    if revisions:
        after["rev"] = after.get("rev", 0) + 1
    return after
