"""``retry`` and ``repin``, alone or together: the effects of ``core.renewal`` carried out in one compare-and-set.

Before a state says that another file is the registered one, no lane can commit by the old one any more: the state is
marked as superseded, so that whoever claims from then on stops before it writes; then all leases are taken away; then
the state is saved, which fails if anybody has changed it since the mark. Dying in between leaves a pass that is cut
anew with the old file.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve, field, frozen

from migronaut.core.lifecycle import Action, transition
from migronaut.core.ports import TookTooLongError
from migronaut.core.renewal import Asked, Difference, Effects, effects_of
from migronaut.core.state import BackgroundState, Counters, Direction, Phase, Spec, Status
from migronaut.engine.coordinator.requirements import unmet
from migronaut.engine.operator.registering import load_source, require_server
from migronaut.engine.ports import Ports, Source
from migronaut.engine.states import Request, acted, noted, required
from migronaut.engine.work import current_pass
from migronaut.versioning import match_filter, match_hash

_PROBE_TIMEOUT = 5.0


@frozen(kw_only=True)
class Renewed:
    """The state after a retry or a repin, and what it took."""

    state: BackgroundState
    effects: Effects = field(factory=Effects)
    nothing_left: bool = False


def renew(
    ports: Ports, name: str, request: Request, *, retry: bool = False, from_start: bool = False, repin: bool = False
) -> Renewed:
    """Do what is asked for as a whole, or nothing of it.

    Args:
        retry: Take it up again.
        from_start: With a new plan and empty totals.
        repin: Make the file on disk the registered one.

    Raises:
        NotRegisteredError, BackgroundConflictError, MigrationNotFoundError, InvalidMigrationError,
        IrreversibleMigrationError, TransactionsUnsupportedError: Nothing was changed.
    """
    source = load_source(ports, name) if repin else None
    while True:
        state = required(ports.store, name)
        asked = _asked(ports, state, source, retry=retry, from_start=from_start)
        effects = effects_of(state, asked)
        if effects == Effects():
            return Renewed(state=state, nothing_left=asked.nothing_left)
        saved = _carry_out(ports, state, effects, source, request)
        if saved is not None:
            return Renewed(state=saved, effects=effects, nothing_left=asked.nothing_left)


def _asked(ports: Ports, state: BackgroundState, source: Source | None, *, retry: bool, from_start: bool) -> Asked:
    other = source if source is not None and source.checksum != state.checksum else None
    if other is not None:
        require_server(ports, other.background, state.direction)
    # What was left out is tried again, or found to be in the new shape by now: then it is left out no more.
    ended = retry and not from_start and state.status is Status.COMPLETED and not state.left_out
    return Asked(
        retry=retry,
        from_start=from_start,
        file=None if other is None else _difference(state, other),
        nothing_left=ended and _nothing_left(ports, state, other.background.spec if other else state.spec),
    )


def _difference(state: BackgroundState, source: Source) -> Difference:
    before, after, direction = state.spec, source.background.spec, state.direction
    return Difference(
        match=match_hash(before, direction) != match_hash(after, direction),
        cut=_cut_of(before, direction) != _cut_of(after, direction),
        requires=_requires(state, source) != state.requires,
    )


def _cut_of(spec: Spec, direction: Direction) -> tuple[object, ...]:
    """Everything of a spec that a plan was made for."""
    return (match_hash(spec, direction), spec.max_parallel, spec.partitions, spec.min_documents)


def _requires(state: BackgroundState, source: Source) -> tuple[str, ...]:
    """The way back requires nothing."""
    return source.requires if state.direction is Direction.FORWARD else ()


def _nothing_left(ports: Ports, state: BackgroundState, spec: Spec) -> bool:
    """One bounded probe; one that takes too long says nothing."""
    match = match_filter(spec, state.direction)
    try:
        return not ports.documents(spec).count(match, limit=1, timeout=_PROBE_TIMEOUT)
    except TookTooLongError:
        return False


def _carry_out(
    ports: Ports, state: BackgroundState, effects: Effects, source: Source | None, request: Request
) -> BackgroundState | None:
    """The state as stored; None when somebody has changed it meanwhile."""
    before: BackgroundState | None = state
    if effects.fence:
        before = fenced(ports, state)
    if before is None:
        return None
    if effects.reopen:
        ports.store.reset_partitions(current_pass(state))
    at = ports.store.now()
    wanted = evolve(before, phase=Phase.REPLAN if effects.replan else state.phase)
    if source is not None and effects.repin:
        wanted = _repinned(wanted, source, at, request)
    if effects.forget:
        wanted = _forgetting(wanted, from_start=effects.from_start)
    if effects.action is not None:
        wanted = acted(wanted, effects.action, at, request) or wanted
    return ports.store.save(as_things_stand(ports, wanted) if effects.look else wanted)


def fenced(ports: Ports, state: BackgroundState) -> BackgroundState | None:
    """See that no lane commits anything while the state that is returned stands; None when somebody was faster."""
    marked: BackgroundState | None = state
    if state.status is Status.RUNNING and state.phase is not Phase.REPLAN:
        marked = ports.store.save(evolve(state, phase=Phase.REPLAN))
    if marked is not None:
        ports.store.drop_leases(state.name)
    return marked


def _repinned(state: BackgroundState, source: Source, at: datetime, request: Request) -> BackgroundState:
    return noted(
        evolve(
            state,
            checksum=source.checksum,
            spec=source.background.spec,
            description=source.description,
            requires=_requires(state, source),
        ),
        "repin",
        at,
        request,
    )


def _forgetting(state: BackgroundState, *, from_start: bool) -> BackgroundState:
    clean = evolve(state, bad_ids=(), left_out=0, errors=(), last_error=None, note=None, pass_number=0)
    return evolve(clean, plan=None, phase=Phase.PARTITION, totals=Counters()) if from_start else clean


def as_things_stand(ports: Ports, state: BackgroundState) -> BackgroundState:
    """What is about to go on, or blocked while something it requires is not through."""
    waits_for = tuple(each.name for each in unmet(ports, state))
    status = transition(state.status, Action.BLOCK).status if waits_for else state.status
    return evolve(state, waits_for=waits_for, status=status)
