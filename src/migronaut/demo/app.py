"""The migrator of the demo, for itself and (as ``MIGRONAUT_APP``) for its worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from attrs import evolve
from pymongo.database import Database

from migronaut.core.tickets import Ticket, TicketStatus
from migronaut.demo.project import NAME
from migronaut.engine import Ports
from migronaut.migrator import Migrator
from migronaut.mongo.tickets import MongoTickets

FACTORY = "migronaut.demo.app:migrator"
LEASE_TTL = 4.0

_TTL = 6.0
_GRACE = {TicketStatus.WORKING: 1.0, TicketStatus.WAITING: 3.0}


class ImpatientTickets(MongoTickets):
    """Tickets that count as lost after seconds.

    The real ones wait for more than a minute before they send a hint a second time: a queue with a backlog needs
    that, and somebody who watches a demo would be gone.

    Args:
        now: The database server's time.
    """

    def __init__(self, db: Database[Any], *, background_collection: str, now: Callable[[], datetime]) -> None:
        super().__init__(db, background_collection=background_collection)
        self._now = now

    def claim(self, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
        """Claim for a few seconds: a slice of the demo is shorter."""
        return super().claim(ticket_id, run=run, seq=seq, owner=owner, ttl=min(ttl, _TTL))

    def extend(self, ticket: Ticket, *, ttl: float) -> bool:
        """Keep for a few seconds more."""
        return super().extend(ticket, ttl=min(ttl, _TTL))

    def overdue(self) -> tuple[Ticket, ...]:
        """Tickets past due by a second (nobody works for it any more) or by three (its hint seems to be lost)."""
        now = self._now()
        return tuple(ticket for ticket in self.of(NAME) if now - ticket.due > _grace(ticket))


def _grace(ticket: Ticket) -> timedelta:
    return timedelta(seconds=_GRACE[ticket.status] * 2**ticket.sends)


class DemoMigrator(Migrator):
    """A ``Migrator`` with impatient tickets."""

    @cached_property
    def ports(self) -> Ports:
        """The engine's outside world, with tickets of the demo's own."""
        ports = super().ports
        tickets = ImpatientTickets(
            self.db, background_collection=self.config.background_collection, now=ports.store.now
        )
        return evolve(ports, tickets=tickets)


def migrator() -> Migrator:
    """The migrator of a worker process, configured by its environment."""
    return DemoMigrator.from_environment(os.environ)
