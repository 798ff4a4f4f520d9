"""``Tickets`` in memory, each call one compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from attrs import evolve

from migronaut.core.tickets import GRACE, Role, Ticket, TicketStatus, grace, ticket_id
from migronaut.memory.database import MemoryServer


class MemoryTickets:
    """The tickets of a ``MemoryServer``.

    Args:
        grace: Seconds past due after which a hint that was sent once counts as lost.
    """

    def __init__(self, server: MemoryServer, *, grace: float = GRACE) -> None:
        self._server = server
        self._grace = grace

    def open(self, migration: str, role: Role, *, lane: int | None = None) -> tuple[Ticket, bool]:
        """A fresh ticket (True), or the one that is alive already (False)."""
        self._server.reach("tickets.open")
        id_ = ticket_id(migration, role, lane=lane)
        with self._server.lock:
            alive = self._server.tickets.get(id_)
            if alive is not None:
                return alive, False
            fresh = Ticket(
                id=id_,
                migration=migration,
                role=role,
                lane=lane,
                run=self._server.token(),
                seq=0,
                status=TicketStatus.WAITING,
                due=self._server.now(),
            )
            self._server.tickets[id_] = fresh
            return fresh, True

    def claim(self, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
        """``waiting`` (or ``working`` past its due time) to ``working``."""
        self._server.reach("tickets.claim")

        def free(stored: Ticket) -> bool:
            """Whether the hint is still the one to be worked."""
            due = stored.status is TicketStatus.WAITING or stored.due <= self._server.now()
            return due and (stored.run, stored.seq) == (run, seq)

        due = self._server.after(ttl)
        return self._change(ticket_id, free, status=TicketStatus.WORKING, owner=owner, due=due)

    def extend(self, ticket: Ticket, *, ttl: float) -> bool:
        """Keep a working ticket from being healed while its work goes on."""
        self._server.reach("tickets.extend")
        return self._change(ticket.id, _worked_for(ticket), due=self._server.after(ttl)) is not None

    def again(self, ticket: Ticket, *, delay: float, failures: int = 0) -> Ticket | None:
        """``working`` to ``waiting`` with the next sequence number, due in ``delay`` seconds."""
        self._server.reach("tickets.again")
        return self._change(
            ticket.id,
            _worked_for(ticket),
            status=TicketStatus.WAITING,
            seq=ticket.seq + 1,
            due=self._server.after(delay),
            owner=None,
            failures=failures,
            sends=0,
            losses=0,
        )

    def close(self, ticket: Ticket) -> bool:
        """Delete a ticket that we work for."""
        self._server.reach("tickets.close")
        return self._delete(ticket.id, _worked_for(ticket))

    def wake(self, migration: str) -> Ticket | None:
        """Make a waiting coordinator ticket that is due later due now."""
        self._server.reach("tickets.wake")
        now = self._server.now()
        return self._change(
            ticket_id(migration, Role.COORDINATOR),
            lambda stored: stored.status is TicketStatus.WAITING and stored.due > now,
            due=now,
        )

    def of(self, migration: str) -> tuple[Ticket, ...]:
        """All tickets of a migration, in the order of their ids."""
        self._server.reach("tickets.of")
        return self._select(lambda stored: stored.migration == migration)

    def overdue(self) -> tuple[Ticket, ...]:
        """Tickets past due by more than the grace of their sends, the longest overdue first."""
        self._server.reach("tickets.overdue")
        now = self._server.now()
        late = self._select(lambda stored: stored.due + timedelta(seconds=grace(stored.sends, first=self._grace)) < now)
        return tuple(sorted(late, key=lambda ticket: ticket.due))

    def resend(self, ticket: Ticket) -> Ticket | None:
        """Count one more send (and a loss if it was ``working``), make it due now."""
        self._server.reach("tickets.resend")
        lost = ticket.status is TicketStatus.WORKING
        return self._change(
            ticket.id,
            _unchanged(ticket),
            status=TicketStatus.WAITING,
            owner=None,
            sends=ticket.sends + 1,
            losses=ticket.losses + lost,
            due=self._server.now(),
        )

    def drop(self, ticket: Ticket) -> bool:
        """Delete an overdue ticket, only if it is still the one that was read."""
        self._server.reach("tickets.drop")
        return self._delete(ticket.id, _unchanged(ticket))

    def sent(self, ticket: Ticket, ref: str) -> None:
        """Remember the queue-side id of the last hint, unless a later one was sent meanwhile."""
        self._server.reach("tickets.sent")
        hint = (ticket.run, ticket.seq, ticket.sends)
        self._change(ticket.id, lambda stored: (stored.run, stored.seq, stored.sends) == hint, ref=ref)

    def _change(self, id_: str, expected: Callable[[Ticket], bool], **changes: Any) -> Ticket | None:
        with self._server.lock:
            stored = self._server.tickets.get(id_)
            if stored is None or not expected(stored):
                return None
            self._server.tickets[id_] = changed = evolve(stored, **changes)
            return changed

    def _delete(self, id_: str, expected: Callable[[Ticket], bool]) -> bool:
        with self._server.lock:
            stored = self._server.tickets.get(id_)
            if stored is None or not expected(stored):
                return False
            del self._server.tickets[id_]
            return True

    def _select(self, wanted: Callable[[Ticket], bool]) -> tuple[Ticket, ...]:
        with self._server.lock:
            return tuple(stored for _, stored in sorted(self._server.tickets.items()) if wanted(stored))


def _worked_for(ticket: Ticket) -> Callable[[Ticket], bool]:
    mine = (ticket.run, ticket.seq, ticket.owner)
    return lambda stored: stored.status is TicketStatus.WORKING and (stored.run, stored.seq, stored.owner) == mine


def _unchanged(ticket: Ticket) -> Callable[[Ticket], bool]:
    read = (ticket.run, ticket.seq, ticket.status, ticket.sends, ticket.due)
    return lambda stored: (stored.run, stored.seq, stored.status, stored.sends, stored.due) == read
