"""What a migration waits for, and drift: old-shape documents of a migration that had completed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from attrs import evolve

from migronaut.core.coordinator import closed
from migronaut.core.lifecycle import Action
from migronaut.core.order import (
    Awaited,
    Earlier,
    States,
    awaited,
    earlier,
    earlier_by_file,
    earlier_by_version,
    later_by_version,
)
from migronaut.core.ports import TookTooLongError
from migronaut.core.state import OPEN_PARTITIONS, SCHEMA, BackgroundState, Partition, Status
from migronaut.engine.ports import Ports
from migronaut.engine.states import Request, acted, change
from migronaut.versioning import match_filter

_PROBE_TIMEOUT = 5.0


def unmet(ports: Ports, state: BackgroundState) -> tuple[Awaited, ...]:
    """What must be through before a migration begins; what completed and has old-shape documents again is reopened."""
    return _unmet(ports, lambda states: earlier(state, states), timeout=_PROBE_TIMEOUT)


def unmet_of(ports: Ports, names: Iterable[str]) -> tuple[Awaited, ...]:
    """The same for what requires these and does its work at once: however long it takes, it has to be known."""
    return _unmet(ports, lambda states: earlier_by_file(names, states), timeout=None)


def unended(ports: Ports, state: BackgroundState, partitions: Sequence[Partition]) -> tuple[Awaited, ...]:
    """What holds it up now, as far as the states say; nothing does while it has partitions to work.

    Once it has begun, only those that still make documents for it count: it must not complete before they have ended.
    """
    waiting = state.status in (Status.BLOCKED, Status.PENDING)
    is_open = not closed(state) and any(each.status in OPEN_PARTITIONS for each in partitions)
    if is_open and not waiting:
        return ()
    states = states_of(ports)
    return awaited(earlier(state, states) if waiting else earlier_by_version(state, states), states)


def states_of(ports: Ports) -> States:
    """All that is registered, by name."""
    return {state.name: state for state in ports.store.states()}


def _unmet(
    ports: Ports, first_of: Callable[[States], Sequence[Earlier]], *, timeout: float | None
) -> tuple[Awaited, ...]:
    states = states_of(ports)
    first = first_of(states)
    waiting = awaited(first, states)
    if waiting:
        return waiting
    completed = [each.state for each in first if each.state is not None and each.state.status is Status.COMPLETED]
    drifted = _with_old_shape(ports, completed, timeout=timeout)
    for state in drifted:
        reopen(ports, state.name, reason="old-shape documents were found when another migration required it")
    if not drifted:
        return ()
    states = states_of(ports)
    return awaited(first_of(states), states)


def _with_old_shape(
    ports: Ports, completed: Iterable[BackgroundState], *, timeout: float | None
) -> list[BackgroundState]:
    """Those that have documents to do again. One probe answers for all of a collection, where it finds nothing."""
    found: list[BackgroundState] = []
    for each in _by_collection(completed).values():
        if len(each) == 1 or _any_matches(ports, each, timeout=timeout):
            found += [state for state in each if has_old_shape(ports, state, timeout=timeout)]
    return found


def _by_collection(states: Iterable[BackgroundState]) -> Mapping[tuple[str, str], list[BackgroundState]]:
    found: dict[tuple[str, str], list[BackgroundState]] = {}
    for state in states:
        found.setdefault((state.spec.collection, state.spec.version_field), []).append(state)
    return found


def _any_matches(ports: Ports, states: Sequence[BackgroundState], *, timeout: float | None) -> bool:
    match = {"$or": [match_filter(state.spec, state.direction) for state in states]}
    spec = next((state.spec for state in states if not state.spec.versioned), states[0].spec)
    try:
        return ports.documents(spec).count(match, limit=1, timeout=timeout) > 0
    except TookTooLongError:
        return False


def has_old_shape(ports: Ports, state: BackgroundState, *, timeout: float | None = _PROBE_TIMEOUT) -> bool | None:
    """One bounded probe: does any document match again? None when it takes longer than ``timeout`` seconds.

    Completion was decided by a count; a probe that takes too long says nothing against it.
    """
    match = match_filter(state.spec, state.direction)
    try:
        found = ports.documents(state.spec).count(match, limit=1, without=state.bad_ids, timeout=timeout)
    except TookTooLongError:
        return None
    return found > 0


def hand_on(ports: Ports, state: BackgroundState) -> None:
    """Before a migration completes: those that come later by version have to see what it made.

    One that has completed is reopened. Of one that has not, the revision moves on, so that a coordinator which counted
    before cannot save what it found then: it looks again, and waits, or finds what was made.
    """
    later = later_by_version(state, states_of(ports))
    ended = [each for each in later if each.status is Status.COMPLETED]
    for each in _with_old_shape(ports, ended, timeout=_PROBE_TIMEOUT):
        _follow(ports, each.name, state.name)
    for each in later:
        if each.status is Status.RUNNING:
            _make_look_again(ports, each.name, state.name)


def _make_look_again(ports: Ports, name: str, earlier_one: str) -> None:
    while (now := ports.store.load(name)) is not None and now.schema <= SCHEMA:
        if now.status is Status.COMPLETED and has_old_shape(ports, now):
            _follow(ports, name, earlier_one)
        if now.status is not Status.RUNNING or ports.store.save(now) is not None:
            return


def _follow(ports: Ports, name: str, earlier_one: str) -> None:
    reopen(ports, name, reason=f"{earlier_one} made documents for it")


def reopen(ports: Ports, name: str, *, reason: str) -> None:
    """A completed migration runs again; its next step plans a new pass."""

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        """Reopen it, if it is still completed."""
        if state.status is not Status.COMPLETED:
            return None
        moved = acted(state, Action.REOPEN, at, Request(reason=reason))
        return moved and evolve(moved, reopened=state.reopened + 1, pass_number=0)

    change(ports.store, name, decide)
