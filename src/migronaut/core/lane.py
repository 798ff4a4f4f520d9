"""What follows a batch and what follows a slice: pure decisions of a lane."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

from migronaut.core.state import SCHEMA, BackgroundState, Counters, Phase, Status
from migronaut.core.tickets import MAX_DELAY

MAX_LANE_RETRIES = 8
STOPPING_DELAY = 2.0
"""Seconds before a stopping worker's job may run again, so that the same worker does not take it back."""


class Outcome(StrEnum):
    """How a slice ended."""

    STOPPED = "stopped"
    YIELDED = "yielded"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FAILED = "failed"
    COMPLETED = "completed"
    STALE = "stale"
    EXHAUSTED = "exhausted"
    BUSY = "busy"
    LOST = "lost"
    WAITING = "waiting"
    RAISED = "raised"


@frozen(kw_only=True)
class SliceResult:
    """One slice: how it ended, what it did, when to come back, and what was raised."""

    outcome: Outcome
    counters: Counters = field(factory=Counters)
    retry_after: float = 0.0
    reason: str | None = None
    error: BaseException | None = None


@frozen(kw_only=True)
class LaneFacts:
    """What a lane sees between two batches.

    Args:
        batches: Finished in this slice; a slice always does one, or short ones would never end.
        out_of_time: The slice is over.
        state: The state as read now; None when it is gone.
        repinned: Another file was pinned since the slice began; its transform is to be used from now on.
    """

    stopping: bool
    lease_lost: bool
    batches: int
    out_of_time: bool
    state: BackgroundState | None
    generation: int
    plan: str
    repinned: bool = False


def before_batch(facts: LaneFacts) -> Outcome | None:
    """Why a lane stops here, or None to go on."""
    if facts.lease_lost:
        return Outcome.LOST
    if facts.stopping:
        return Outcome.STOPPED
    if facts.batches and facts.out_of_time:
        return Outcome.YIELDED
    outcome = control(facts.state, generation=facts.generation, plan=facts.plan)
    if outcome is None and facts.repinned:
        return Outcome.YIELDED
    return outcome


_ENDED = {
    Status.CANCELLED: Outcome.CANCELLED,
    Status.PAUSED: Outcome.PAUSED,
    Status.FAILED: Outcome.FAILED,
    Status.COMPLETED: Outcome.COMPLETED,
}


def control(state: BackgroundState | None, *, generation: int, plan: str) -> Outcome | None:
    """What the operator or the coordinator decided meanwhile."""
    if state is None:
        return Outcome.CANCELLED
    if state.schema > SCHEMA:
        return Outcome.STALE
    if state.status in _ENDED:
        return _ENDED[state.status]
    current = state.plan.token if state.plan else None
    superseded = state.phase is Phase.REPLAN or state.generation != generation or current != plan
    return Outcome.STALE if superseded or state.status is not Status.RUNNING else None


@frozen
class End:
    """The lane ticket is closed."""

    result: str


@frozen(kw_only=True)
class Again:
    """The lane comes back after ``delay`` seconds; ``failures`` slices in a row have raised."""

    delay: float
    failures: int
    result: str


def after_slice(result: SliceResult, *, failures: int, stopping: bool) -> End | Again:
    """What a lane job becomes after a slice.

    Args:
        failures: Slices in a row that raised before this one.
        stopping: This worker is shutting down.
    """
    match result.outcome:
        case Outcome.YIELDED | Outcome.STOPPED | Outcome.LOST:
            return Again(delay=STOPPING_DELAY if stopping else 0.0, failures=0, result=result.outcome)
        case Outcome.BUSY | Outcome.WAITING:
            return Again(delay=min(MAX_DELAY, result.retry_after), failures=failures, result=result.outcome)
        case Outcome.RAISED if failures < MAX_LANE_RETRIES:
            return Again(delay=backoff(failures + 1), failures=failures + 1, result=result.outcome)
        case Outcome.RAISED:
            return End("gave-up")
        case _:
            return End(result.outcome)


def backoff(failures: int) -> float:
    """Seconds to wait after the n-th failure in a row: 1, 2, 4, ... at most 300."""
    return min(MAX_DELAY, 2.0 ** min(failures - 1, 30))
