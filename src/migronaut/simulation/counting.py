"""Counters, compared with what really happened."""

from __future__ import annotations

from collections import Counter

from attrs import asdict, define, field

from migronaut.core.state import BackgroundState, Counters, Guard
from migronaut.memory.database import MemoryServer
from migronaut.simulation.ledger import Ledger
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.violation import Violation


@define(eq=False)
class Counting:
    """Notes what the counters of a migration may say, and reads them."""

    server: MemoryServer
    scheduler: Scheduler
    ledger: Ledger
    _restarted: set[str] = field(factory=set)
    _before: Counter[str] = field(factory=Counter)

    def happened(self, name: str, **numbers: int) -> None:
        """Something happened that may be counted."""
        for counter, number in numbers.items():
            self.ledger.happened[name, counter] += number

    def begins_anew(self, name: str, *, turned: bool) -> None:
        """The totals were set to 0.

        Args:
            turned: It goes the other way from here on; else lanes of the plan before may still be at work.
        """
        if not turned:
            self._restarted.add(name)
            return
        before = self._before[name]
        self._before[name] = self.ledger.written[name]
        self.server.durability.also(lambda: self._before.__setitem__(name, before))

    def check(self, state: BackgroundState) -> Counters:
        """Nothing was counted that did not happen."""
        counted = state.totals
        if state.plan is not None and state.rolled_generation < state.generation:
            token = state.plan.token
            counted = sum((each.counters for each in self.server.partitions.values() if each.plan == token), counted)
        self._compare(state.name, counted)
        return counted

    def check_end(self, state: BackgroundState) -> Counters:
        """A transaction counts what it writes, exactly; only documents that fail are left out."""
        counted, written = self.check(state), self.ledger.written[state.name] - self._before[state.name]
        scenario = self.ledger.scenario
        exact = scenario.guard is Guard.SNAPSHOT and state.name not in self._restarted
        if exact and counted.migrated != written:
            self._wrong("counters", f"lanes wrote {written} documents and counted {counted.migrated}")
        if not set(state.bad_ids) <= set(scenario.troubles):
            self._wrong("failed", "a document was left out that never failed")
        return counted

    def _compare(self, name: str, counted: Counters) -> None:
        happened = self.ledger.happened
        read = happened[name, "scanned"] + happened[name, "retried"]
        # A pipeline also takes documents that have come into a range since its ids were read.
        came = happened[name, "migrated"] if self.ledger.scenario.pipeline else 0
        most = {
            "scanned": happened[name, "scanned"] + came,
            "retried": happened[name, "retried"],
            "migrated": happened[name, "migrated"],
            "failed": happened[name, "failed"],
            "batches": happened[name, "batches"],
            "slices": happened[name, "slices"],
            "reclaims": happened[name, "slices"],
            "skipped": read,
            "conflicts": read,
        }
        for counter, number in asdict(counted).items():
            if number > most.get(counter, number):
                self._wrong("counters", f"{counter} says {number}, and it happened {most[counter]} times")

    def _wrong(self, invariant: str, text: str) -> None:
        self.scheduler.violated(Violation(invariant, text))
