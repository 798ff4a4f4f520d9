"""Locks, tickets and queues: who may decide, who may be woken, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from migronaut.core.jobs import Hint
from migronaut.core.ports.running import Stop
from migronaut.core.ports.storing import Owner
from migronaut.core.tickets import ContinueLater, Role, Ticket, WaitForLanes


class Locks(Protocol):
    """Named locks with a holder, a time to live and the server's clock."""

    def acquire(self, name: str, *, owner: Owner, ttl: float) -> str | None:
        """The nonce of a lock that is now ours, or None when somebody holds it."""

    def renew(self, name: str, nonce: str) -> bool:
        """Extend; False when the lock is no longer ours."""

    def release(self, name: str, nonce: str) -> bool:
        """Give back; False when the lock was no longer ours."""


class Tickets(Protocol):
    """The rights to be woken. Every method is one compare-and-set; None or False means: somebody was faster."""

    def open(self, migration: str, role: Role, *, lane: int | None = None) -> tuple[Ticket, bool]:
        """A fresh ticket (True), or the one that is alive already (False)."""

    def claim(self, ticket_id: str, *, run: str, seq: int, owner: str, ttl: float) -> Ticket | None:
        """``waiting`` (or ``working`` past its due time) to ``working``."""

    def extend(self, ticket: Ticket, *, ttl: float) -> bool:
        """Keep a working ticket from being healed while its work goes on."""

    def again(self, ticket: Ticket, *, delay: float, failures: int = 0) -> Ticket | None:
        """``working`` to ``waiting`` with the next sequence number, due in ``delay`` seconds."""

    def close(self, ticket: Ticket) -> bool:
        """Delete a ticket that we work for."""

    def wake(self, migration: str) -> Ticket | None:
        """Make a waiting coordinator ticket that is due later due now."""

    def of(self, migration: str) -> tuple[Ticket, ...]:
        """All tickets of a migration."""

    def overdue(self) -> tuple[Ticket, ...]:
        """Tickets past due by more than the grace of their sends (usually 30 s x 2^sends, at most 15 min)."""

    def resend(self, ticket: Ticket) -> Ticket | None:
        """Count one more send (and a loss if it was ``working``), make it due now."""

    def drop(self, ticket: Ticket) -> bool:
        """Delete an overdue ticket, only if it is still the one that was read."""

    def sent(self, ticket: Ticket, ref: str) -> None:
        """Remember the queue-side id of the last hint."""


Job = TypeVar("Job", contravariant=True)


class QueuePort(Protocol[Job]):
    """A queue as the processor and the producer see it. ``Job`` is the library's own job object."""

    @property
    def stopping(self) -> Stop:
        """Set when this worker shuts down."""

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send hints, each under its own queue-side id."""

    def continue_later(self, job: Job, directive: ContinueLater) -> object:
        """The same job again, in the library's idiom; returns what the job function must return."""

    def wait_for_lanes(self, job: Job, directive: WaitForLanes) -> object:
        """Send the children; the same job again after the poll. Returns what the job function must return."""

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Make a waiting coordinator job due now; ``ref`` is the queue-side id it was last sent under."""

    def annotate(self, job: Job, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Show a line or the progress on the job; best effort."""
