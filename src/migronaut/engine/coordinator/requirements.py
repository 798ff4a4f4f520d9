"""What a migration requires, and drift: old-shape documents of a migration that had completed."""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from migronaut.core.lifecycle import Action
from migronaut.core.ports import TookTooLongError
from migronaut.core.state import BackgroundState, Direction, Status
from migronaut.engine.ports import Ports
from migronaut.engine.states import Request, acted, change
from migronaut.versioning import match_filter

_PROBE_TIMEOUT = 5.0


def unmet(ports: Ports, requires: tuple[str, ...]) -> tuple[str, ...]:
    """Those required migrations that are not through; one with old-shape documents again is reopened."""
    return tuple(name for name in requires if not _met(ports, name))


def _met(ports: Ports, name: str) -> bool:
    state = ports.store.load(name)
    if state is None or state.status is not Status.COMPLETED or state.direction is not Direction.FORWARD:
        return False
    # Completion was decided by a count; a probe that takes too long says nothing against it.
    if not has_old_shape(ports, state):
        return True
    reopen(ports, name, reason="old-shape documents were found when another migration required it")
    return False


def has_old_shape(ports: Ports, state: BackgroundState) -> bool | None:
    """One bounded probe: does any document match again? None when it takes longer than 5 seconds."""
    match = match_filter(state.spec, state.direction)
    try:
        found = ports.documents(state.spec).count(match, limit=1, without=state.bad_ids, timeout=_PROBE_TIMEOUT)
    except TookTooLongError:
        return None
    return found > 0


def reopen(ports: Ports, name: str, *, reason: str) -> None:
    """A completed migration runs again; its next step plans a new pass."""

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        if state.status is not Status.COMPLETED:
            return None
        moved = acted(state, Action.REOPEN, at, Request(reason=reason))
        return moved and evolve(moved, reopened=state.reopened + 1, pass_number=0)

    change(ports.store, name, decide)
