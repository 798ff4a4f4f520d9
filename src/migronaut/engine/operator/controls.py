"""What an operator can do. Each takes who asks and why into the history; a repeated click is harmless."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve, frozen

from migronaut.core.lifecycle import Action
from migronaut.core.ports import Stop
from migronaut.core.state import BackgroundState
from migronaut.engine.operator.renewing import as_things_stand, renew
from migronaut.engine.ports import Ports
from migronaut.engine.states import Request, acted, change, required

WAIT_FOR_LANES = 120.0
"""Seconds that ``wait`` waits at most."""
_LOOK = 0.2
_NOTHING_LEFT = "no document is left to migrate"


@frozen(kw_only=True)
class Controlled:
    """The state after a control; ``changed`` False = it was so already.

    Args:
        stopped: No lane works any more (only looked at when asked to wait, else True).
        lanes: Leases that were taken away (``unlock``).
        repinned: The file on disk was made the registered one.
        note: Why not more was done, where the status does not say it.
    """

    state: BackgroundState
    changed: bool
    stopped: bool = True
    lanes: int = 0
    repinned: bool = False
    note: str | None = None


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
        return moved and as_things_stand(ports, moved)

    return _act(ports, name, decide)


def retry(ports: Ports, name: str, request: Request, *, from_start: bool, repin: bool = False) -> Controlled:
    """Try again what failed, was cancelled, or completed with documents left out or written since.

    Args:
        from_start: Plan again from the first pass, with empty totals.
        repin: With the file on disk; both are done, or nothing is.

    Raises:
        NotRegisteredError, BackgroundConflictError: Nothing was changed; with ``repin`` also for what it raises.
    """
    done = renew(ports, name, request, retry=True, from_start=from_start, repin=repin)
    return Controlled(
        state=done.state,
        changed=done.effects.action is not None,
        repinned=done.effects.repin,
        note=_NOTHING_LEFT if done.nothing_left else None,
    )


def repin(ports: Ports, name: str, request: Request) -> Controlled:
    """Make the file on disk the registered one; cut the pass anew if what it matches or how wide it runs changed.

    No lane commits anything by the old file once this has returned.

    Raises:
        MigrationNotFoundError, InvalidMigrationError, IrreversibleMigrationError,
        TransactionsUnsupportedError, BackgroundConflictError: Nothing was changed.
    """
    done = renew(ports, name, request, repin=True)
    return Controlled(state=done.state, changed=done.effects.repin, repinned=done.effects.repin)


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
