"""What must be true after every call of a port, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from attrs import asdict, define, field

from migronaut.core.lifecycle import TABLE
from migronaut.core.state import BackgroundState, Counters, Direction, Guard, Partition, Phase, Status
from migronaut.core.tickets import Ticket, TicketStatus
from migronaut.memory.database import MemoryServer
from migronaut.memory.server.order import as_stored, sort_key
from migronaut.memory.server.query import compile_query
from migronaut.simulation.ledger import Ledger
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.violation import Violation
from migronaut.versioning import match_filter

Told = Callable[[Any], None] | None
_MOVES = {(source, row.target) for row in TABLE.values() for source in row.sources} | {(Status.PAUSED, Status.BLOCKED)}
"""Resuming looks at what is required at once."""
_UNDER_LEASE = frozenset({"store.checkpoint", "store.renew", "store.release", "store.fail_slice"})
_BY_HOLDER = frozenset({"tickets.again", "tickets.close", "tickets.extend"})


@define(eq=False)
class Invariants:
    """Watches the calls of every process."""

    server: MemoryServer
    scheduler: Scheduler
    ledger: Ledger
    statuses: Counter[str] = field(factory=Counter)
    failed_slices: int = 0
    _widths: dict[str, int] = field(factory=dict)
    _seen: dict[tuple[str, str], BackgroundState] = field(factory=dict)
    _restarted: set[str] = field(factory=set)
    _counted_at: dict[tuple[str, str], int] = field(factory=dict)
    _writing: dict[str, Partition] = field(factory=dict)
    _held_at_commit: dict[str, bool] = field(factory=dict)

    def watch(self, point: str, args: tuple[Any, ...], given: Mapping[str, Any], collection: str = "") -> Told:
        """Look at a call before its effect; what is returned looks at it after."""
        if point in _UNDER_LEASE:
            return self._under_lease(point, args[0])
        if point in _BY_HOLDER:
            return self._by_holder(args[0])
        match point:
            case "store.load":
                return self._loaded
            case "store.save":
                return self._saving(args[0])
            case "store.claim":
                return self._claimed
            case "tickets.claim":
                return self._claiming_ticket(args[0], given["run"], given["seq"])
            case "documents.read" | "documents.read_ids":
                return lambda batch: self._read(collection, len(batch.documents))
            case "documents.fetch":
                return lambda found: self._happened(collection, retried=len(found))
            case "documents.count":
                self._counted_at[self.scheduler.current.name, collection] = self.scheduler.steps
            case "documents.write_same" | "documents.rewrite_fenced":
                self._writing[self.scheduler.current.name] = args[0]
        return None

    def transforming(self, name: str, checksum: str) -> None:
        """A lane works a batch: what it read of the state last must let it, with the file that it has."""
        state = self._seen.get((self.scheduler.current.name, name))
        if state is None or state.status is not Status.RUNNING:
            self._wrong("control", f"a lane worked though it had read {state and state.status}")
        elif state.checksum != checksum:
            self._wrong("file", "a lane ran another file than the registered one")

    def _loaded(self, state: BackgroundState | None) -> None:
        if state is not None:
            self._seen[self.scheduler.current.name, state.name] = state

    # ------------------------------------------------------------------ leases

    def _under_lease(self, point: str, partition: Partition) -> Told:
        before = self.server.partitions.get(partition.id)
        if self._holds(partition):
            self.failed_slices += point == "store.fail_slice"
            return None
        return lambda _: self._unchanged(before, partition, point)

    def _holds(self, partition: Partition) -> bool:
        stored = self.server.partitions.get(partition.id)
        if stored is None or stored.lease is None or partition.lease is None:
            return False
        return stored.lease.token == partition.lease.token

    def _unchanged(self, before: Partition | None, partition: Partition, point: str) -> None:
        if self.server.partitions.get(partition.id) is not before:
            self._wrong("fencing", f"{point} had an effect without the lease")

    def before_commit(self) -> None:
        """The last moment before a transaction commits."""
        actor = self.scheduler.current.name
        self._held_at_commit[actor] = self._holds(self._writing[actor])

    def committed(self) -> None:
        """A transaction has committed."""
        if not self._held_at_commit[self.scheduler.current.name]:
            self._wrong("fencing", "a transaction committed without the lease")

    def _claimed(self, claim: object) -> None:
        if not isinstance(claim, Partition):
            self.scheduler.seen[type(claim).__name__.lower()] += 1
            return
        self._happened(claim.background, slices=1)
        leases = [
            each.lease for each in self.server.partitions.values() if each.background == claim.background and each.lease
        ]
        width = max(self._widths.get(claim.plan, 0), *(self._widths.get(plan, 0) for plan in self._plans(claim)))
        if len({lease.slot for lease in leases}) < len(leases):
            self._wrong("max_parallel", "two leases share a slot")
        if len(leases) > width:
            self._wrong("max_parallel", f"{len(leases)} leases are live where {width} may be")

    def _plans(self, claim: Partition) -> list[str]:
        held = (each for each in self.server.partitions.values() if each.background == claim.background and each.lease)
        return [each.plan for each in held]

    # ------------------------------------------------------------------ tickets

    def _claiming_ticket(self, id_: str, run: str, seq: int) -> Told:
        before = self.server.tickets.get(id_)
        free = before is not None and (before.status is TicketStatus.WAITING or before.due <= self.server.now())

        def told(claimed: Ticket | None) -> None:
            if claimed is None:
                self.scheduler.seen["stale hint"] += 1
            elif before is None or not free or (before.run, before.seq) != (run, seq):
                self._wrong("tickets", "a hint that was not the ticket's own claimed it")

        return told

    def _by_holder(self, ticket: Ticket) -> Told:
        before = self.server.tickets.get(ticket.id)
        if before is not None and (before.run, before.seq, before.owner) == (ticket.run, ticket.seq, ticket.owner):
            return None

        def told(_: object) -> None:
            if self.server.tickets.get(ticket.id) is not before:
                self._wrong("tickets", "a ticket was changed by somebody who had lost it")

        return told

    # ------------------------------------------------------------------ states

    def _saving(self, state: BackgroundState) -> Told:
        before = self.server.states[state.name]

        def told(saved: BackgroundState | None) -> None:
            after = self.server.states[state.name]
            if saved is None:
                self.scheduler.seen["lost compare-and-set"] += 1
            elif before.revision != state.revision:
                self._wrong("compare-and-set", "a state was saved that somebody else had changed")
            if after is not before:
                self._moved(before, after)

        return told

    def _moved(self, before: BackgroundState, after: BackgroundState) -> None:
        if before.status is not after.status:
            self.statuses[after.status] += 1
            self._moved_on(before, after)
        if after.generation not in {before.generation, before.generation + 1}:
            self._wrong("lifecycle", "a plan skipped a generation")
        if after.phase is Phase.REPLAN and before.phase is not Phase.REPLAN:
            self.scheduler.seen["plan superseded"] += 1
            live = any(each.background == after.name and each.lease for each in self.server.partitions.values())
            self.scheduler.seen["plan superseded under a lane"] += live
        if after.plan is None and before.plan is not None:
            self._restarted.add(after.name)
        if after.plan is not None:
            token, width = after.plan.token, after.spec.max_parallel
            self._widths[token] = max(width, self._widths.get(token, 0))
        self.check_counters(after)

    def _moved_on(self, before: BackgroundState, after: BackgroundState) -> None:
        if (before.status, after.status) not in _MOVES:
            self._wrong("lifecycle", f"a migration went from {before.status} to {after.status}")
        if after.status is Status.COMPLETED:
            self._completed(after)
        if before.status is Status.BLOCKED and after.status is Status.PENDING:
            required = [self.server.states[name] for name in after.requires]
            if any(all(entry.to_status is not Status.COMPLETED for entry in each.history) for each in required):
                self._wrong("lifecycle", "a migration started before what it requires had completed")

    def _completed(self, state: BackgroundState) -> None:
        """Whatever matches came into the old shape after it was counted."""
        counted = self._counted_at.get((self.scheduler.current.name, state.spec.collection), -1)
        for key in self.left(state):
            if self.ledger.old_since.get((state.spec.collection, key), -1) < counted:
                self._wrong("completed", "a migration completed although a document of the old shape was there")

    def left(self, state: BackgroundState) -> list[Any]:
        """Keys of the documents that match and were not given up."""
        matches = compile_query(match_filter(state.spec, Direction.FORWARD))
        given_up = {sort_key(as_stored(id_)) for id_ in state.bad_ids}
        rows = self.server.collection(state.spec.collection).scan()
        return [key for key, stored in rows if key not in given_up and matches(stored.document)]

    def check_counters(self, state: BackgroundState) -> Counters:
        """Nothing was counted that did not happen."""
        counted = state.totals
        if state.plan is not None and state.rolled_generation < state.generation:
            token = state.plan.token
            counted = sum((each.counters for each in self.server.partitions.values() if each.plan == token), counted)
        self._compare(state.spec.collection, state.name, counted)
        return counted

    def check_end(self, state: BackgroundState) -> Counters:
        """A transaction counts what it writes, exactly; only documents that fail are left out."""
        counted, written = self.check_counters(state), self.ledger.happened[state.spec.collection, "written"]
        scenario = self.ledger.scenario
        exact = scenario.guard is Guard.SNAPSHOT and state.name not in self._restarted
        if exact and counted.migrated != written:
            self._wrong("counters", f"lanes wrote {written} documents and counted {counted.migrated}")
        if not set(state.bad_ids) <= set(self.ledger.scenario.troubles):
            self._wrong("failed", "a document was left out that never failed")
        return counted

    def _compare(self, collection: str, name: str, counted: Counters) -> None:
        happened = self.ledger.happened
        read = happened[collection, "scanned"] + happened[collection, "retried"]
        # A pipeline also takes documents that have come into a range since its ids were read.
        came = happened[collection, "migrated"] if self.ledger.scenario.pipeline else 0
        most = {
            "scanned": happened[collection, "scanned"] + came,
            "retried": happened[collection, "retried"],
            "migrated": happened[collection, "migrated"],
            "failed": happened[collection, "failed"],
            "batches": happened[collection, "batches"],
            "slices": happened[name, "slices"],
            "reclaims": happened[name, "slices"],
            "skipped": read,
            "conflicts": read,
        }
        for counter, number in asdict(counted).items():
            if number > most.get(counter, number):
                self._wrong("counters", f"{counter} says {number}, and it happened {most[counter]} times")

    def _read(self, collection: str, documents: int) -> None:
        self._happened(collection, scanned=documents, batches=1)

    def _happened(self, of: str, **numbers: int) -> None:
        for name, number in numbers.items():
            self.ledger.happened[of, name] += number

    def _wrong(self, invariant: str, text: str) -> None:
        self.scheduler.violated(Violation(invariant, text))
