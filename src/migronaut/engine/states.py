"""Changing a state: read, decide with a pure function, compare-and-set, again if somebody was faster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve, frozen

from migronaut.core.lifecycle import Action, transition
from migronaut.core.ports import Store
from migronaut.core.state import MAX_HISTORY, TERMINAL, BackgroundState, HistoryEntry, Status
from migronaut.core.wording import did_you_mean
from migronaut.errors import NotRegisteredError


@frozen(kw_only=True)
class Request:
    """Who asks for something, and why; it ends in the history."""

    by: str | None = None
    reason: str | None = None


Change = Callable[[BackgroundState, datetime], BackgroundState | None]
"""From the state as it is (and the server's time) to the state wanted; None = leave it."""


def change(store: Store, name: str, decide: Change) -> BackgroundState:
    """Apply ``decide`` until its result could be stored.

    Raises:
        NotRegisteredError: There is no such migration.
    """
    while True:
        state = required(store, name)
        wanted = decide(state, store.now())
        if wanted is None or wanted == state:
            return state
        saved = store.save(wanted)
        if saved is not None:
            return saved


def required(store: Store, name: str) -> BackgroundState:
    """The state of a migration that must be registered.

    Raises:
        NotRegisteredError: There is no such migration.
    """
    state = store.load(name)
    if state is None:
        raise NotRegisteredError(
            f"No background migration {name!r} is registered in this database; `migronaut up` registers pending ones."
            f"{did_you_mean(name, (each.name for each in store.states()))}",
            migration=name,
        )
    return state


def acted(
    state: BackgroundState, action: Action, at: datetime, request: Request | None = None
) -> BackgroundState | None:
    """The state after an action, with its line of history; None when it was done already.

    Raises:
        BackgroundConflictError: The status does not allow the action.
    """
    moved = transition(state.status, action)
    if not moved.changed:
        return None
    there = evolve(state, status=moved.status, finished_at=at if moved.status in TERMINAL else None)
    return noted(there, action, at, request, before=state.status)


def noted(
    state: BackgroundState, what: str, at: datetime, request: Request | None = None, *, before: Status | None = None
) -> BackgroundState:
    """The state with one more line of history.

    Args:
        before: The status it had; None = the one it has.
    """
    request = request or Request()
    entry = HistoryEntry(
        at=at,
        action=what,
        from_status=before or state.status,
        to_status=state.status,
        by=request.by,
        reason=request.reason,
    )
    return evolve(state, history=(*state.history, entry)[-MAX_HISTORY:])
