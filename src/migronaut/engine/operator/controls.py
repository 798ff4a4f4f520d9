"""What an operator can do. Each takes who asks and why into the history; a repeated click is harmless."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve, frozen

from migronaut.core.coordinator import closed
from migronaut.core.lifecycle import Action, transition
from migronaut.core.ports import Stop
from migronaut.core.state import MAX_HISTORY, BackgroundState, Counters, Direction, HistoryEntry, Phase, Spec, Status
from migronaut.engine.coordinator.requirements import unmet
from migronaut.engine.operator.registering import load_source, require_server
from migronaut.engine.ports import Ports
from migronaut.engine.states import Request, acted, change, required
from migronaut.engine.work import current_pass
from migronaut.versioning import match_hash

WAIT_FOR_LANES = 120.0
"""Seconds that ``wait`` waits at most."""
_LOOK = 0.2


@frozen(kw_only=True)
class Controlled:
    """The state after a control; ``changed`` False = it was so already.

    Args:
        stopped: No lane works any more (only looked at when asked to wait, else True).
        lanes: Leases that were taken away (``unlock``).
        repinned: The file on disk was made the registered one.
    """

    state: BackgroundState
    changed: bool
    stopped: bool = True
    lanes: int = 0
    repinned: bool = False


def _act(ports: Ports, name: str, decide: Callable[[BackgroundState, datetime], BackgroundState | None]) -> Controlled:
    before = required(ports.store, name)
    after = change(ports.store, name, decide)
    return Controlled(state=after, changed=after.revision != before.revision)


def pause(ports: Ports, name: str, request: Request) -> Controlled:
    """Lanes stop at their next batch; nothing is lost."""
    return _act(ports, name, lambda state, at: acted(state, Action.PAUSE, at, request))


def cancel(ports: Ports, name: str, request: Request) -> Controlled:
    """Lanes stop at their next batch; what was migrated stays migrated."""
    return _act(ports, name, lambda state, at: acted(state, Action.CANCEL, at, request))


def resume(ports: Ports, name: str, request: Request) -> Controlled:
    """Go on where it was; blocked again while something it requires is not through."""

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        """As things stand now: pending, or blocked."""
        moved = acted(state, Action.RESUME, at, request)
        if moved is None:
            return None
        waits_for = tuple(each.name for each in unmet(ports, state))
        return evolve(moved, waits_for=waits_for, status=Status.BLOCKED if waits_for else moved.status)

    return _act(ports, name, decide)


def retry(ports: Ports, name: str, request: Request, *, from_start: bool) -> Controlled:
    """Try again what failed, was cancelled, or completed with documents left out."""

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        """Try again, with what failed forgotten."""
        moved = acted(state, _again(state), at, request)
        if moved is None:
            return None
        if not from_start and not closed(state):
            ports.store.reset_partitions(current_pass(state))
        return _clean(moved, from_start=from_start)

    return _act(ports, name, decide)


def _again(state: BackgroundState) -> Action:
    return Action.REOPEN if state.status is Status.COMPLETED else Action.RETRY


def require_retry(ports: Ports, name: str) -> None:
    """See that a retry is allowed.

    Raises:
        NotRegisteredError, BackgroundConflictError: It is not.
    """
    state = required(ports.store, name)
    transition(state.status, _again(state))


def _clean(state: BackgroundState, *, from_start: bool) -> BackgroundState:
    """No bad documents, no error; from the start also no plan and no totals."""
    clean = evolve(state, bad_ids=(), left_out=0, errors=(), last_error=None, note=None)
    if from_start:
        return evolve(clean, plan=None, pass_number=0, phase=Phase.PARTITION, totals=Counters())
    # What failed may lie behind a cursor, so that it takes one more pass.
    return evolve(clean, pass_number=0)


def repin(ports: Ports, name: str, request: Request) -> Controlled:
    """Make the file on disk the registered one; cut the pass anew if what it matches or how wide it runs changed.

    Raises:
        MigrationNotFoundError, InvalidMigrationError, IrreversibleMigrationError,
        TransactionsUnsupportedError: Nothing was changed.
    """
    source = load_source(ports, name)
    spec = source.background.spec
    require_server(ports, source.background, required(ports.store, name).direction)

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        """Take the file on disk as the registered one."""
        if state.checksum == source.checksum:
            return None
        entry = HistoryEntry(
            at=at,
            action="repin",
            from_status=state.status,
            to_status=state.status,
            by=request.by,
            reason=request.reason,
        )
        same_cut = _cut_of(state.spec, state.direction) == _cut_of(spec, state.direction)
        anew = state.plan is not None and not closed(state) and not same_cut
        return evolve(
            state,
            checksum=source.checksum,
            spec=spec,
            description=source.description,
            requires=source.requires,
            phase=Phase.REPLAN if anew else state.phase,
            history=(*state.history, entry)[-MAX_HISTORY:],
        )

    done = _act(ports, name, decide)
    return evolve(done, repinned=done.changed)


def _cut_of(spec: Spec, direction: Direction) -> tuple[object, ...]:
    """Everything of a spec that a plan was made for."""
    return (match_hash(spec, direction), spec.max_parallel, spec.partitions, spec.min_documents)


def unlock(ports: Ports, name: str) -> Controlled:
    """Take all leases away: their holders are fenced off at their next write."""
    state = required(ports.store, name)
    lanes = ports.store.drop_leases(name)
    return Controlled(state=state, changed=lanes > 0, lanes=lanes)


def wait_for_lanes(ports: Ports, controlled: Controlled, stop: Stop) -> Controlled:
    """Wait until no lane can write any more, at most two minutes: those that live end, the others are fenced off."""
    end = ports.clock.monotonic() + WAIT_FOR_LANES
    while ports.store.fence_expired(controlled.state.name):
        if stop.is_set() or ports.clock.monotonic() >= end:
            return evolve(controlled, stopped=False)
        ports.clock.sleep(_LOOK, stop)
    return controlled
