"""Tickets (who may be woken) and directives (what a job becomes).

One ticket is one right to be woken. A queue message only names it, by run and sequence number;
whether the message does anything is decided by a compare-and-set on the ticket.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from migronaut.core.jobs import CoordinatorJob, Hint, LaneJob, queue_id

MAX_LOSSES = 5
MAX_DELAY = 300.0
GRACE = 30.0
_MAX_GRACE = 900.0


class Role(StrEnum):
    """What a ticket wakes."""

    COORDINATOR = "coordinator"
    LANE = "lane"


class TicketStatus(StrEnum):
    """Whether somebody works for the ticket now."""

    WAITING = "waiting"
    WORKING = "working"


@frozen(kw_only=True)
class Ticket:
    """One right to be woken.

    Args:
        due: Server time: of the next wake when waiting, of losing the right when working.
        failures: Slices in a row that raised.
        sends: Hints that were sent again for this run and sequence number.
        losses: How often a worker that held it vanished.
        ref: Queue-side id of the last hint.
    """

    id: str
    migration: str
    role: Role
    run: str
    seq: int
    status: TicketStatus
    due: datetime
    lane: int | None = None
    owner: str | None = None
    failures: int = 0
    ref: str | None = None
    sends: int = 0
    losses: int = 0

    @property
    def payload(self) -> CoordinatorJob | LaneJob:
        """What a hint for this ticket says."""
        if self.lane is None:
            return CoordinatorJob(migration=self.migration, run=self.run, seq=self.seq)
        return LaneJob(migration=self.migration, run=self.run, seq=self.seq, lane=self.lane)

    @property
    def hint(self) -> Hint:
        """The hint to send for this ticket."""
        id_ = queue_id(self.migration, self.run, lane=self.lane, seq=self.seq, sends=self.sends)
        return Hint(id=id_, payload=self.payload)


def ticket_id(migration: str, role: Role, *, lane: int | None = None) -> str:
    """The ``_id`` of a ticket: the unique index on it is what keeps a second one from being opened."""
    return migration if role is Role.COORDINATOR else f"{migration}#{lane}"


def grace(sends: int, *, first: float = GRACE) -> float:
    """Seconds past due after which a ticket counts as lost; every send doubles it: a backlog breeds no duplicates."""
    return min(_MAX_GRACE, first * 2.0 ** min(sends, 10))


@frozen(kw_only=True)
class Finish:
    """Nothing more to do; ``result`` is shown on the job.

    Args:
        error: What a slice raised. It is counted already; a port may show or re-raise it afterwards.
    """

    result: str
    error: BaseException | None = None


@frozen(kw_only=True)
class ContinueLater:
    """The same job again after ``delay`` seconds (0-300) with this payload.

    Args:
        error: What a slice raised. It is counted already; a port may show or re-raise it afterwards.
    """

    delay: float
    hint: Hint
    result: str
    error: BaseException | None = None


@frozen(kw_only=True)
class WaitForLanes:
    """Send the children; wake me when the last ends, or after ``poll`` seconds."""

    children: tuple[Hint, ...]
    hint: Hint
    poll: float
    result: str
    error: None = None


Directive = Finish | ContinueLater | WaitForLanes
