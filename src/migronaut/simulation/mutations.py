"""Guards taken away, one at a time: a simulation that does not notice is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

from attrs import evolve

from migronaut.core.coordinator import FileFact, Verdict, verdict
from migronaut.core.lane import Outcome
from migronaut.core.ports import Claim, Owner, Pass, Rewriting, Write
from migronaut.core.state import BackgroundState, Guard, Partition, Spec
from migronaut.core.tickets import Ticket
from migronaut.engine import Catalog
from migronaut.engine.sources import Found
from migronaut.memory.database import MemoryServer
from migronaut.memory.documents import MemoryDocuments
from migronaut.memory.server.collection import Work
from migronaut.memory.server.order import as_stored, sort_key
from migronaut.memory.store import MemoryStore
from migronaut.memory.tickets import MemoryTickets
from migronaut.queueing import Healed, Producer
from migronaut.versioning import guard_filter

Mutation = Callable[[], AbstractContextManager[Any]]


def mutation(name: str | None) -> AbstractContextManager[Any]:
    """The code without one of its guards while the block runs; None = as it is."""
    return nullcontext() if name is None else MUTATIONS[name]()


def _held(stored: Partition | None, partition: Partition) -> Partition | None:
    return stored if stored is not None and stored.lease is not None else None


def _is_there(work: Work, write: Write) -> bool:
    return work.get(sort_key(as_stored(write.id))) is not None


def _without(field: Callable[[Spec], str | None]) -> Callable[..., dict[str, Any]]:
    def filter_without(original: Mapping[str, Any], *, spec: Spec, guard: Guard) -> dict[str, Any]:
        """The guard's filter without that field."""
        where = guard_filter(original, spec=spec, guard=guard)
        return {name: value for name, value in where.items() if name != field(spec)}

    return filter_without


_claim_ticket = MemoryTickets.claim


def _claim_any(self: MemoryTickets, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
    """Claim the ticket as it is now, whatever the hint says."""
    server: MemoryServer = vars(self)["_server"]
    stored = server.tickets.get(ticket_id)
    if stored is not None:
        run, seq = stored.run, stored.seq
    return _claim_ticket(self, ticket_id, run=run, seq=seq, owner=owner, ttl=ttl)


def _anybody(ticket: Ticket) -> Callable[[Ticket], bool]:
    return lambda stored: True


_claim_lease = MemoryStore.claim


def _claim_any_slot(self: MemoryStore, work: Pass, *, owner: Owner, slots: int, ttl: float) -> Claim:
    """Claim as if nobody held a slot."""
    server: MemoryServer = vars(self)["_server"]
    slot_of = {id_: each.lease.slot for id_, each in server.partitions.items() if each.lease}
    _move(server, dict.fromkeys(slot_of, -1))
    claim = _claim_lease(self, work, owner=owner, slots=slots, ttl=ttl)
    taken = {claim.id} if isinstance(claim, Partition) else set()
    _move(server, {id_: slot for id_, slot in slot_of.items() if id_ not in taken})
    return claim


def _move(server: MemoryServer, slot_of: Mapping[str, int]) -> None:
    for id_, slot in slot_of.items():
        partition = server.partitions[id_]
        if partition.lease is not None:
            server.partitions[id_] = evolve(partition, lease=evolve(partition.lease, slot=slot))


_save = MemoryStore.save


def _save_blindly(self: MemoryStore, state: BackgroundState) -> BackgroundState | None:
    server: MemoryServer = vars(self)["_server"]
    return _save(self, evolve(state, revision=server.states[state.name].revision))


_rewrite = MemoryDocuments.rewrite
_rewrite_fenced = MemoryDocuments.rewrite_fenced


def _rewrite_anything(self: MemoryDocuments, rewriting: Rewriting) -> int:
    return _rewrite(self, evolve(rewriting, match={}))


def _rewrite_anything_fenced(self: MemoryDocuments, partition: Partition, rewriting: Rewriting, **given: Any) -> int:
    return _rewrite_fenced(self, partition, evolve(rewriting, match={}), **given)


def _never_closed(state: BackgroundState) -> bool:
    return False


def _without_count(
    state: BackgroundState, *, failed_partitions: int, remaining: int, last_error: str | None = None
) -> Verdict:
    return verdict(state, failed_partitions=failed_partitions, remaining=0, last_error=last_error)


def _no_control(state: BackgroundState | None, *, generation: int, plan: str) -> Outcome | None:
    return None


def _any_file(catalog: Catalog, state: BackgroundState) -> Found:
    return Found(fact=FileFact.OK, source=catalog.find(state.name))


def _no_heal(self: Producer) -> Healed:
    return Healed()


_FILTER = "migronaut.engine.lane.items.guard_filter"

MUTATIONS: Mapping[str, Mutation] = {
    "lease-token": lambda: patch("migronaut.memory.leases.held", _held),
    "byte-comparison": lambda: patch("migronaut.memory.documents._is_same", _is_there),
    "version-in-filter": lambda: patch(
        "migronaut.engine.lane.items.guard_filter", _without(lambda spec: spec.version_field)
    ),
    "revision-in-filter": lambda: patch(
        "migronaut.engine.lane.items.guard_filter", _without(lambda spec: spec.revision_field)
    ),
    "ticket-run-and-sequence": lambda: patch.object(MemoryTickets, "claim", _claim_any),
    "ticket-holder": lambda: patch("migronaut.memory.tickets._worked_for", _anybody),
    "unique-slot": lambda: patch.object(MemoryStore, "claim", _claim_any_slot),
    "state-revision": lambda: patch.object(MemoryStore, "save", _save_blindly),
    "rolled-generation": lambda: patch("migronaut.engine.coordinator.closing.closed", _never_closed),
    "final-count": lambda: patch("migronaut.engine.coordinator.closing.verdict", _without_count),
    "control": lambda: patch("migronaut.core.lane.control", _no_control),
    "match-of-a-pipeline": lambda: patch.multiple(
        MemoryDocuments, rewrite=_rewrite_anything, rewrite_fenced=_rewrite_anything_fenced
    ),
    "file-checksum": lambda: patch("migronaut.engine.lane.slice.find_source", _any_file),
    "heal": lambda: patch.object(Producer, "heal", _no_heal),
}
"""By name: what the simulation must notice the absence of."""
