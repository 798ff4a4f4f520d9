"""What comes next for a migration: a pure function of facts.

The engine gathers the facts, asks ``next_step``, performs the answer, and asks again until it is
``Process``, ``Wait`` or ``Done``.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from migronaut.core.advice import STILL_WRITTEN
from migronaut.core.order import Awaited, waiting_text
from migronaut.core.state import (
    MAX_BAD_BYTES,
    MAX_BAD_IDS,
    NOT_REMEMBERED,
    SCHEMA,
    TERMINAL,
    BackgroundState,
    Phase,
    Status,
)
from migronaut.core.wording import plural

POLL = 5.0
"""Seconds until a waiting coordinator looks again."""
_ENDING = "lanes of the old plan are ending"


class FileFact(StrEnum):
    """What this process finds on disk for a registered migration."""

    OK = "ok"
    CHANGED = "changed"
    MISSING = "missing"
    UNUSABLE = "unusable"


def file_notice(fact: FileFact, name: str, problem: str | None = None) -> str | None:
    """Why no work goes on with a file as it is on disk, and what to do; None when it does.

    Args:
        problem: What makes a file unusable.
    """
    match fact:
        case FileFact.OK:
            return None
        case FileFact.CHANGED:
            return (
                f"the file differs from the registered one; `migronaut background repin {name}` uses the file as it "
                "is now"
            )
        case FileFact.MISSING:
            return "the file is not on this machine; bring the registered one here, or work it where it is"
        case FileFact.UNUSABLE:
            return f"the file cannot be used on this machine: {problem or 'it cannot be loaded'}"


@frozen(kw_only=True)
class Tally:
    """The partitions of the current plan: how many are unclaimed, leased, and failed for good."""

    claimable: int = 0
    leased: int = 0
    failed: int = 0


@frozen(kw_only=True)
class Facts:
    """All that the decision rests on.

    Args:
        file_problem: What makes the file unusable.
        match: Hash of what the migration matches; another one than the plan's invalidates the plan.
        unmet: What must be through before it begins, or completes.
        problem: Why this server can never do the migration, e.g. it has lost its transactions.
        live_leases: Leases of the migration, of whatever plan, after the expired ones were taken away.
    """

    state: BackgroundState | None
    file: FileFact
    file_problem: str | None = None
    match: str
    tally: Tally = Tally()
    live_leases: int = 0
    unmet: tuple[Awaited, ...] = ()
    problem: str | None = None


@frozen
class Unblock:
    """All that it requires is through: blocked becomes pending."""


@frozen
class Start:
    """The plan that exists is good: go on with it (pending becomes running)."""


@frozen(kw_only=True)
class MakePlan:
    """Cut the collection; ``same_pass`` when a running pass is only cut anew."""

    same_pass: bool = False


@frozen
class Drain:
    """Supersede the plan: its lanes stop at their next batch."""


@frozen(kw_only=True)
class Process:
    """There is work for ``lanes`` more lanes, among ``slots`` that may run at a time."""

    lanes: int
    slots: int


@frozen
class Finalize:
    """Every partition is closed: count what is left."""


@frozen(kw_only=True)
class Wait:
    """Nothing to do for now; look again after ``retry_after`` seconds.

    Args:
        for_operator: It may not end by itself: a deploy under way ends it, or somebody has to.
        awaits: The migrations that it waits for.
    """

    reason: str
    retry_after: float = POLL
    for_operator: bool = False
    awaits: tuple[Awaited, ...] = ()


@frozen(kw_only=True)
class GiveUp:
    """It can never be done here."""

    reason: str


@frozen
class Done:
    """Nothing to do any more; ``status`` None = not registered."""

    status: Status | None


Step = Unblock | Start | MakePlan | Drain | Process | Finalize | GiveUp | Wait | Done


def next_step(facts: Facts) -> Step:
    """Decide the next step of a migration."""
    state = facts.state
    if state is None:
        return Done(None)
    if state.schema > SCHEMA:
        return Wait(reason="a newer release wrote this state; this worker is of an older one")
    if state.status in TERMINAL or state.status is Status.PAUSED:
        return Done(state.status)
    if state.status is Status.BLOCKED:
        return _wait_for(facts.unmet) if facts.unmet else Unblock()
    notice = file_notice(facts.file, state.name, facts.file_problem)
    if notice is not None:
        return Wait(reason=notice, for_operator=True)
    if facts.problem is not None:
        return GiveUp(reason=facts.problem)
    return _running_step(state, facts)


def _running_step(state: BackgroundState, facts: Facts) -> Step:
    tally = facts.tally
    if facts.unmet and (state.plan is None or closed(state) or state.status is Status.PENDING):
        return _wait_for(facts.unmet)
    if state.plan is None or closed(state):
        return MakePlan()
    if state.phase is Phase.REPLAN or state.plan.match != facts.match:
        return _replan_step(state, facts)
    if state.status is Status.PENDING:
        return Start()
    if tally.claimable or tally.leased:
        slots = state.spec.max_parallel
        return Process(lanes=max(0, min(tally.claimable, slots - facts.live_leases)), slots=slots)
    if facts.live_leases:
        # A lane may claim a piece of an older plan just before that is deleted; it finds out, and lets go.
        return Wait(reason=_ENDING, retry_after=1.0)
    # What failed is told at once, whatever else there is to wait for.
    return _wait_for(facts.unmet) if facts.unmet and not tally.failed else Finalize()


def _wait_for(unmet: tuple[Awaited, ...]) -> Wait:
    stuck = any(each.stuck for each in unmet)
    return Wait(reason=waiting_text(unmet), for_operator=stuck, awaits=unmet)


def _replan_step(state: BackgroundState, facts: Facts) -> Step:
    """The plan is not what is wanted any more: stop its lanes, then cut the same pass anew."""
    if state.phase is not Phase.REPLAN:
        return Drain()
    if facts.live_leases:
        return Wait(reason=_ENDING, retry_after=1.0)
    return MakePlan(same_pass=True)


def closed(state: BackgroundState) -> bool:
    """True when the counters of the current pass are in the totals: work can only go on in a new pass."""
    return state.rolled_generation >= state.generation


@frozen
class Complete:
    """Nothing matches any more."""


@frozen(kw_only=True)
class Fail:
    """The migration cannot go on by itself."""

    reason: str


@frozen
class NextPass:
    """Documents are left: plan again."""


Verdict = Complete | Fail | NextPass


def verdict(
    state: BackgroundState, *, failed_partitions: int, remaining: int, last_error: str | None = None
) -> Verdict:
    """What a closed pass leads to.

    Args:
        failed_partitions: Partitions that raised too often.
        remaining: Documents still matching, without those left out; counting to 1 is enough.
        last_error: What one of the failed partitions raised last, as it may be shown.
    """
    if reason := over_budget(state):
        return Fail(reason=reason)
    if failed_partitions:
        failed = f"{plural(failed_partitions, 'partition')} failed {plural(state.spec.max_slice_failures, 'time')}"
        return Fail(reason=f"{failed} in a row: {last_error}" if last_error else f"{failed} in a row")
    if not remaining:
        return Complete()
    if state.pass_number >= state.spec.max_passes:
        return Fail(
            reason=f"{STILL_WRITTEN} after {state.pass_number} passes; "
            "is an old release of the application still writing them?"
        )
    return NextPass()


def over_budget(state: BackgroundState) -> str | None:
    """Why the documents that could not be migrated end a migration; None when it may go on without them."""
    failed, budget = state.left_out, state.spec.max_document_errors
    if failed > budget:
        return f"{plural(failed, 'document')} could not be migrated; max_document_errors allows {budget}"
    if len(state.bad_ids) < min(failed, MAX_BAD_IDS) or any(error.kind == NOT_REMEMBERED for error in state.errors):
        return (
            f"{plural(failed, 'document')} could not be migrated, and their ids are too large to be remembered "
            f"({MAX_BAD_BYTES // 2**20} MiB), so that they cannot be left out"
        )
    return None
