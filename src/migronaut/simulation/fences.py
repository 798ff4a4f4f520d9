"""Who may still write: leases, and what is told to be over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from migronaut.core.state import BackgroundState, Partition
from migronaut.memory.database import MemoryServer
from migronaut.simulation.perils import Peril
from migronaut.simulation.scenario import Scenario
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.violation import Violation

Told = Callable[[Any], None] | None
_STRICT = frozenset({Peril.WAKE, Peril.WAIT, Peril.REVERT})


@define(eq=False)
class Fences:
    """Watches claims, writes under a lease, and writes after an end."""

    server: MemoryServer
    scheduler: Scheduler
    scenario: Scenario
    _widths: dict[str, int] = field(factory=dict)
    _claims: dict[str, tuple[Partition, int]] = field(factory=dict)
    _files: dict[tuple[str, str], str] = field(factory=dict)
    _ended: dict[str, int] = field(factory=dict)
    _writing: dict[str, Partition] = field(factory=dict)
    _held_at_commit: dict[str, bool] = field(factory=dict)

    # ------------------------------------------------------------------ leases

    def under_lease(self, point: str, partition: Partition) -> Told:
        """Something that only the holder of a lease can do."""
        before = self.server.partitions.get(partition.id)
        if self.holds(partition):
            return None
        return lambda _: self._unchanged(before, partition, point)

    def holds(self, partition: Partition) -> bool:
        """Whether a lane has the lease that it thinks it has."""
        stored = self.server.partitions.get(partition.id)
        if stored is None or stored.lease is None or partition.lease is None:
            return False
        return stored.lease.token == partition.lease.token

    def _unchanged(self, before: Partition | None, partition: Partition, point: str) -> None:
        if self.server.partitions.get(partition.id) is not before:
            self._wrong("fencing", f"{point} had an effect without the lease")

    def claimed(self, claim: Partition) -> None:
        """A lane has got a partition."""
        self._claims[self.scheduler.current.name] = claim, self.scheduler.steps
        held = [each for each in self.server.partitions.values() if each.background == claim.background and each.lease]
        slots = {each.lease.slot for each in held if each.lease}
        width = max(self._widths.get(each.plan, 0) for each in (claim, *held))
        if len(slots) < len(held):
            self._wrong("max_parallel", "two leases share a slot")
        if len(held) > width:
            self._wrong("max_parallel", f"{len(held)} leases are live where {width} may be")

    def planned(self, state: BackgroundState) -> None:
        """A state was saved that has a plan."""
        if state.plan is not None:
            token, width = state.plan.token, state.spec.max_parallel
            self._widths[token] = max(width, self._widths.get(token, 0))

    # ------------------------------------------------------------------ transactions

    def in_transaction(self, partition: Partition) -> None:
        """A lane begins one."""
        self._writing[self.scheduler.current.name] = partition

    def before_commit(self) -> None:
        """The last moment before a transaction commits."""
        actor = self.scheduler.current.name
        self._held_at_commit[actor] = self.holds(self._writing[actor])

    def committed(self) -> None:
        """A transaction has committed."""
        if not self._held_at_commit[self.scheduler.current.name]:
            self._wrong("fencing", "a transaction committed without the lease")

    # ------------------------------------------------------------------ ends

    def found_file(self, name: str, checksum: str) -> None:
        """A process works with this text of a file from now on."""
        self._files[self.scheduler.current.name, name] = checksum

    def ended(self, name: str) -> None:
        """Whoever holds or has held a lease of a migration until now is told to write nothing more."""
        before = self._ended.get(name, -1)
        self._ended[name] = self.scheduler.steps
        self.server.durability.also(lambda: self._ended.__setitem__(name, before))

    def may_write(self, name: str) -> None:
        """A lane writes a document, in a transaction (elsewhere nothing can stop it but its filter)."""
        if not self.scenario.transactions or not self.scenario.perils & _STRICT:
            return
        actor, state = self.scheduler.current.name, self.server.states[name]
        partition, since = self._claims[actor]
        if since <= self._ended.get(name, -1):
            self._wrong("ended", "a lane wrote although it was told that nothing is written any more")
        elif state.plan is None or state.plan.token != partition.plan:
            self._wrong("superseded", "a lane wrote for a plan that is no longer the plan")
        elif self._files.get((actor, name)) != state.checksum:
            self._wrong("file", "a lane wrote by another file than the registered one")

    def _wrong(self, invariant: str, text: str) -> None:
        self.scheduler.violated(Violation(invariant, text))
