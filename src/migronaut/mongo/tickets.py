"""The ``Tickets`` port on MongoDB: every method is one compare-and-set by the server's clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument
from pymongo.database import Database

from migronaut.core.tickets import GRACE, Role, Ticket, TicketStatus, grace, ticket_id
from migronaut.mongo.codec import ticket_from, to_document
from migronaut.mongo.connection import collections, translating

_LONGEST_GRACE = grace(64)
_ENOUGH_SENDS = 32  # doubled that often, every grace is the longest


def _in(seconds: float) -> dict[str, Any]:
    return {"$add": ["$$NOW", seconds * 1000]}


def _overdue(first_grace: float) -> dict[str, Any]:
    doubled = {"$multiply": [first_grace, {"$pow": [2, {"$min": ["$sends", _ENOUGH_SENDS]}]}]}
    lost_at = {"$add": ["$due", {"$multiply": [1000, {"$min": [_LONGEST_GRACE, doubled]}]}]}
    # The first condition is there for the index on ``due``.
    return {"$and": [{"$expr": {"$lt": ["$due", _in(-first_grace)]}}, {"$expr": {"$lt": [lost_at, "$$NOW"]}}]}


def _hint_of(ticket: Ticket) -> dict[str, Any]:
    return {"_id": ticket.id, "run": ticket.run, "seq": ticket.seq}


def _work_of(ticket: Ticket) -> dict[str, Any]:
    """Query that matches while we are the ones who work for the ticket."""
    return _hint_of(ticket) | {"owner": ticket.owner, "status": TicketStatus.WORKING}


def _unchanged(ticket: Ticket) -> dict[str, Any]:
    """Query that matches while nobody claimed, extended, woke or sent the ticket since it was read."""
    return _hint_of(ticket) | {"status": ticket.status, "sends": ticket.sends, "due": ticket.due}


_REPLACED = datetime(1970, 1, 1)  # noqa: DTZ001 - the server puts its own time in its place


class MongoTickets:
    """The rights to be woken, in ``<background_collection>_tickets``.

    Args:
        db: Where they live; its client may be set up in any way.
        background_collection: Name of the collection of the states.
        grace: Seconds past due after which a hint that was sent once counts as lost.
    """

    def __init__(
        self, db: Database[Any], *, background_collection: str = "_migronaut_background", grace: float = GRACE
    ) -> None:
        (self._tickets,) = collections(db, f"{background_collection}_tickets")
        self._overdue = _overdue(grace)
        self._prepared = False

    def _prepare(self) -> None:
        if not self._prepared:
            self._tickets.create_index([("due", ASCENDING)])
            self._prepared = True

    def _change(self, query: dict[str, Any], values: dict[str, Any]) -> Ticket | None:
        doc = self._tickets.find_one_and_update(query, [{"$set": values}], return_document=ReturnDocument.AFTER)
        return None if doc is None else ticket_from(doc)

    @translating()
    def open(self, migration: str, role: Role, *, lane: int | None = None) -> tuple[Ticket, bool]:
        """A fresh ticket (True), or the one that is alive already (False)."""
        self._prepare()
        id_, run = ticket_id(migration, role, lane=lane), uuid4().hex
        fresh = Ticket(
            id=id_,
            migration=migration,
            role=role,
            lane=lane,
            run=run,
            seq=0,
            status=TicketStatus.WAITING,
            due=_REPLACED,
        )
        opened = {"$mergeObjects": [{"$literal": to_document(fresh)}, {"due": "$$NOW"}]}
        missing = {"$eq": [{"$type": "$run"}, "missing"]}
        doc = self._tickets.find_one_and_update(
            {"_id": id_},
            [{"$replaceWith": {"$cond": [missing, opened, "$$ROOT"]}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        ticket = ticket_from(doc or {})  # an upsert always answers with a document
        return ticket, ticket.run == run

    @translating()
    def claim(self, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
        """``waiting`` (or ``working`` past its due time) to ``working``."""
        abandoned = {"status": TicketStatus.WORKING, "$expr": {"$lte": ["$due", "$$NOW"]}}
        free = {"$or": [{"status": TicketStatus.WAITING}, abandoned]}
        return self._change(
            {"_id": ticket_id, "run": run, "seq": seq, **free},
            {"status": TicketStatus.WORKING, "owner": {"$literal": owner}, "due": _in(ttl)},
        )

    @translating()
    def extend(self, ticket: Ticket, *, ttl: float) -> bool:
        """Keep a working ticket from being healed while its work goes on."""
        return self._tickets.update_one(_work_of(ticket), [{"$set": {"due": _in(ttl)}}]).matched_count == 1

    @translating()
    def again(self, ticket: Ticket, *, delay: float, failures: int = 0) -> Ticket | None:
        """``working`` to ``waiting`` with the next sequence number, due in ``delay`` seconds."""
        return self._change(
            _work_of(ticket),
            {
                "status": TicketStatus.WAITING,
                "seq": ticket.seq + 1,
                "due": _in(delay),
                "owner": None,
                "failures": failures,
                "sends": 0,
                "losses": 0,
            },
        )

    @translating()
    def close(self, ticket: Ticket) -> bool:
        """Delete a ticket that we work for."""
        return self._tickets.delete_one(_work_of(ticket)).deleted_count == 1

    @translating()
    def wake(self, migration: str) -> Ticket | None:
        """Make a waiting coordinator ticket that is due later due now."""
        asleep = {"status": TicketStatus.WAITING, "$expr": {"$gt": ["$due", "$$NOW"]}}
        return self._change({"_id": ticket_id(migration, Role.COORDINATOR), **asleep}, {"due": "$$NOW"})

    @translating()
    def of(self, migration: str) -> tuple[Ticket, ...]:
        """All tickets of a migration, in the order of their ids."""
        return tuple(ticket_from(doc) for doc in self._tickets.find({"migration": migration}).sort("_id"))

    @translating()
    def overdue(self) -> tuple[Ticket, ...]:
        """Tickets past due by more than the grace of their sends, the longest overdue first."""
        return tuple(ticket_from(doc) for doc in self._tickets.find(self._overdue).sort("due"))

    @translating()
    def resend(self, ticket: Ticket) -> Ticket | None:
        """Count one more send (and a loss if it was ``working``), make it due now."""
        lost = int(ticket.status is TicketStatus.WORKING)
        return self._change(
            _unchanged(ticket),
            {
                "status": TicketStatus.WAITING,
                "due": "$$NOW",
                "owner": None,
                "sends": ticket.sends + 1,
                "losses": {"$add": ["$losses", lost]},
            },
        )

    @translating()
    def drop(self, ticket: Ticket) -> bool:
        """Delete an overdue ticket, only if it is still the one that was read."""
        return self._tickets.delete_one(_unchanged(ticket)).deleted_count == 1

    @translating()
    def sent(self, ticket: Ticket, ref: str) -> None:
        """Remember the queue-side id of the last hint, unless a later one was sent meanwhile."""
        self._tickets.update_one(_hint_of(ticket) | {"sends": ticket.sends}, {"$set": {"ref": ref}})
