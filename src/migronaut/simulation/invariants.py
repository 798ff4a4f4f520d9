"""What must be true after every call of a port, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from migronaut.core.lifecycle import TABLE
from migronaut.core.state import TERMINAL, BackgroundState, Partition, Phase, Status
from migronaut.core.tickets import Ticket, TicketStatus
from migronaut.memory.database import MemoryServer
from migronaut.memory.server.order import Key, as_stored, sort_key
from migronaut.memory.server.query import compile_query
from migronaut.simulation.counting import Counting
from migronaut.simulation.fences import Fences, Told
from migronaut.simulation.ledger import Ledger
from migronaut.simulation.scenario import COLLECTIONS, STEPS
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.shapes import ends_of
from migronaut.simulation.violation import Violation
from migronaut.versioning import match_filter

_TABLE = {(source, row.target) for row in TABLE.values() for source in row.sources}
_MOVES = _TABLE | {(source, Status.BLOCKED) for source, target in _TABLE if (target, Status.BLOCKED) in _TABLE}
"""Whatever goes on because somebody says so looks at what is required at once."""
_UNDER_LEASE = frozenset({"store.checkpoint", "store.renew", "store.release", "store.fail_slice"})
_BY_HOLDER = frozenset({"tickets.again", "tickets.close", "tickets.extend"})
_IN_TRANSACTION = frozenset({"documents.write_same", "documents.rewrite_fenced"})
_WRITING = _IN_TRANSACTION | {"documents.rewrite", "documents.write_guarded"}


@define(eq=False)
class Invariants:
    """Watches the calls of every process.

    Args:
        expected_failures: Words of which a slice that fails must tell one.
    """

    server: MemoryServer
    scheduler: Scheduler
    ledger: Ledger
    fences: Fences
    counting: Counting
    expected_failures: Sequence[str] = ()
    statuses: Counter[str] = field(factory=Counter)
    failed_slices: int = 0
    _seen: dict[tuple[str, str], BackgroundState] = field(factory=dict)
    _seen_at: dict[tuple[str, str], int] = field(factory=dict)
    _active_since: dict[str, int] = field(factory=dict)
    _counted_at: dict[tuple[str, str], int] = field(factory=dict)
    _counted_at_risk: dict[tuple[str, str], bool] = field(factory=dict)
    _completed_at: dict[str, int] = field(factory=dict)

    def watch(self, point: str, args: tuple[Any, ...], given: Mapping[str, Any], name: str = "") -> Told:
        """Look at a call before its effect; what is returned looks at it after.

        Args:
            name: Of the migration whose documents are called for.
        """
        if point in _UNDER_LEASE:
            return self._under_lease(point, args[0], given)
        if point in _BY_HOLDER:
            return self._by_holder(args[0])
        if point in _WRITING:
            return self._writes(point, args, name)
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
                return lambda batch: self.counting.happened(name, scanned=len(batch.documents), batches=1)
            case "documents.fetch":
                return lambda found: self.counting.happened(name, retried=len(found))
            case "documents.count":
                self._counting(name)
        return None

    def _counting(self, name: str) -> None:
        counting = self.scheduler.current.name, name
        self._counted_at[counting] = self.scheduler.steps
        self._counted_at_risk[counting] = self.ledger.at_risk(COLLECTIONS[name])

    def transforming(self, name: str, checksum: str) -> None:
        """A lane works a batch: what it read of the state last must let it, with the file that it has."""
        state = self._seen.get((self.scheduler.current.name, name))
        if state is None or state.status is not Status.RUNNING:
            self._wrong("control", f"a lane worked though it had read {state and state.status}")
        elif state.checksum != checksum:
            self._wrong("file", "a lane ran another file than the registered one")

    def _loaded(self, state: BackgroundState | None) -> None:
        if state is not None:
            seen = self.scheduler.current.name, state.name
            self._seen[seen], self._seen_at[seen] = state, self.scheduler.steps

    def _under_lease(self, point: str, partition: Partition, given: Mapping[str, Any]) -> Told:
        if point == "store.fail_slice" and self.fences.holds(partition):
            self.failed_slices += 1
            if not any(words in given["error"] for words in self.expected_failures):
                self._wrong("failed", f"a slice failed for no good reason: {given['error']}")
        return self.fences.under_lease(point, partition)

    def _claimed(self, claim: object) -> None:
        if isinstance(claim, Partition):
            self.counting.happened(claim.background, slices=1)
            self.fences.claimed(claim)
        else:
            self.scheduler.seen[type(claim).__name__.lower()] += 1

    def _writes(self, point: str, args: tuple[Any, ...], name: str) -> Told:
        actor = self.scheduler.current.name
        state = self._seen.get((actor, name), self.server.states[name])
        self.ledger.writing[actor] = name, state.direction
        if point in _IN_TRANSACTION:
            self.fences.in_transaction(args[0])
        if point == "documents.rewrite":
            # Documents may have come into the range since its ids were read.
            return lambda changed: self.counting.happened(name, scanned=changed)
        return None

    # ------------------------------------------------------------------ tickets

    def _claiming_ticket(self, id_: str, run: str, seq: int) -> Told:
        before = self.server.tickets.get(id_)
        free = before is not None and (before.status is TicketStatus.WAITING or before.due <= self.server.now())

        def told(claimed: Ticket | None) -> None:
            """Look at the call's result."""
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
            """Look at the call's result."""
            if self.server.tickets.get(ticket.id) is not before:
                self._wrong("tickets", "a ticket was changed by somebody who had lost it")

        return told

    # ------------------------------------------------------------------ states

    def _saving(self, state: BackgroundState) -> Told:
        before = self.server.states[state.name]

        def told(saved: BackgroundState | None) -> None:
            """Look at the call's result."""
            after = self.server.states[state.name]
            if saved is None:
                self.scheduler.seen["lost compare-and-set"] += 1
            elif before.revision != state.revision:
                self._wrong("compare-and-set", "a state was saved that somebody else had changed")
            if after is not before:
                self._moved(before, after)

        return told

    def _moved(self, before: BackgroundState, after: BackgroundState) -> None:
        if before.direction is not after.direction:
            self.scheduler.seen["turned round"] += 1
            self.fences.ended(after.name)
            self.counting.begins_anew(after.name, turned=True)
        elif after.plan is None and before.plan is not None:
            self.counting.begins_anew(after.name, turned=False)
        if before.status is not after.status:
            self.statuses[after.status] += 1
            self._moved_on(before, after)
        if after.generation not in {before.generation, before.generation + 1}:
            self._wrong("lifecycle", "a plan skipped a generation")
        if after.phase is Phase.REPLAN and before.phase is not Phase.REPLAN:
            self.scheduler.seen["plan superseded"] += 1
            live = any(each.background == after.name and each.lease for each in self.server.partitions.values())
            self.scheduler.seen["plan superseded under a lane"] += live
        self.fences.planned(after)
        self.counting.check(after)

    def _moved_on(self, before: BackgroundState, after: BackgroundState) -> None:
        if (before.status, after.status) not in _MOVES and before.direction is after.direction:
            self._wrong("lifecycle", f"a migration went from {before.status} to {after.status}")
        if before.status in TERMINAL and after.status not in TERMINAL:
            self._active_since[after.name] = self.scheduler.steps
        if after.status is Status.COMPLETED:
            self._completed(after)
        if before.status is Status.BLOCKED and after.status is Status.PENDING:
            required = [self.server.states[name] for name in after.requires]
            if any(all(entry.to_status is not Status.COMPLETED for entry in each.history) for each in required):
                self._wrong("lifecycle", "a migration started before what it requires had completed")

    def _completed(self, state: BackgroundState) -> None:
        """Whatever matches came into its shape after it was counted; what makes such documents has ended."""
        self.fences.ended(state.name)
        actor = self.scheduler.current.name
        counted = self._counted_at.get((actor, state.name), -1)
        self._completed_at[state.name] = counted
        if any(self.ledger.since(state.spec.collection, key).step < counted for key in self.left(state)):
            self._wrong("completed", "a migration completed although a document was still to be migrated")
        if self._counted_at_risk.get((actor, state.name)):
            self._wrong("majority", "a migration completed by a count of what a failover may undo")
        for name in self._before_in_chain(state):
            # Whoever looked before that one began anew could not know.
            if self._active_since.get(name, -1) < self._seen_at.get((actor, state.name), -1):
                self._wrong("order", f"a migration completed although {name} still makes documents for it")

    def _before_in_chain(self, state: BackgroundState) -> list[str]:
        """Migrations that are at work on what becomes this one's documents."""
        source, _ = ends_of(STEPS[state.name], state.direction)
        return [
            name
            for name, other in self.server.states.items()
            if COLLECTIONS[name] == COLLECTIONS[state.name]
            and other.direction is state.direction
            and other.status not in TERMINAL
            and ends_of(STEPS[name], other.direction)[1] == source
        ]

    def left(self, state: BackgroundState) -> list[Key]:
        """Keys of the documents that match and were not given up."""
        matches = compile_query(match_filter(state.spec, state.direction))
        given_up = {sort_key(as_stored(id_)) for id_ in state.bad_ids}
        rows = self.server.collection(state.spec.collection).scan()
        return [key for key, stored in rows if key not in given_up and matches(stored.document)]

    def left_behind(self, state: BackgroundState) -> list[Key]:
        """Those of them that the application has not brought since it completed."""
        counted = self._completed_at.get(state.name, -1)
        came = {key: self.ledger.since(state.spec.collection, key) for key in self.left(state)}
        return [key for key, since in came.items() if not since.by_application or since.step < counted]

    def _wrong(self, invariant: str, text: str) -> None:
        self.scheduler.violated(Violation(invariant, text))
