"""Registering a migration: its file becomes a state that workers can find."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from migronaut.core.order import Awaited, waiting_text
from migronaut.core.ports import Condition, Documents
from migronaut.core.state import TERMINAL, BackgroundState, Counters, Direction, Guard, HistoryEntry, Status
from migronaut.core.wording import did_you_mean, sentence
from migronaut.engine.coordinator.requirements import unmet
from migronaut.engine.fitness import SHARDED, missing_text, require_fit
from migronaut.engine.indexes import create_index, wanted_index
from migronaut.engine.ports import Catalog, Ports, Source
from migronaut.engine.states import Request, required
from migronaut.engine.work import stages_of
from migronaut.errors import BackgroundConflictError, InvalidMigrationError, MigrationNotFoundError
from migronaut.spec import Background


@frozen(kw_only=True)
class Registered:
    """The state, and whether this call made it; ``advice`` is for the operator."""

    state: BackgroundState
    created: bool
    advice: str | None = None


def register(ports: Ports, name: str, *, direction: Direction, registration: str, request: Request) -> Registered:
    """Store the state of a migration; a second call finds the first one's.

    Args:
        registration: Id of this registration, fresh for every call.

    Raises:
        MigrationNotFoundError, InvalidMigrationError, TransactionsUnsupportedError,
        IrreversibleMigrationError, BackgroundConflictError: Nothing was registered.
    """
    source = load_source(ports, name)
    condition = require_server(ports, source.background, direction)
    known = ports.store.load(name)
    if known is not None and known.direction is direction:
        return Registered(state=known, created=False)
    note = None if condition.exists else missing_text(source.background.spec, was_there=False)
    fresh = evolve(_fresh(ports, source, direction, registration), note=note)
    waiting = unmet(ports, fresh)
    state = _begun(fresh, waiting, request)
    advice = _advice(state, waiting, condition, indexed=ports.documents(state.spec).indexed())
    if known is not None:
        return Registered(state=_turn_round(ports, known, state), created=True, advice=advice)
    if not ports.store.insert(state):  # somebody else was faster
        return Registered(state=required(ports.store, name), created=False)
    return Registered(state=state, created=True, advice=advice)


def require_server(ports: Ports, background: Background, direction: Direction) -> Condition:
    """See that the server can do what a migration asks for, in the way back too.

    Raises:
        TransactionsUnsupportedError, IrreversibleMigrationError, InvalidMigrationError: It cannot.
    """
    spec = background.spec
    documents = ports.documents(spec)
    background.way(direction)
    condition = require_fit(documents, spec, direction)
    if not documents.acknowledges():
        raise InvalidMigrationError(
            "The migration cannot be done here: its write_concern can never be met, because it asks for more members "
            "than there are, or for a mode that is not defined; correct it.",
            setting="write_concern",
        )
    for each in (Direction.FORWARD, Direction.REVERT):
        if spec.by_pipeline(each):
            _check_pipeline(documents, background, each)
    return condition


def _check_pipeline(documents: Documents, background: Background, direction: Direction) -> None:
    """Let the server read the stages of a pipeline; those of the way back too, before it is needed."""
    problem = documents.refusal_of(stages_of(background.way(direction), background.spec, direction))
    if problem is not None:
        setting = "pipeline" if direction is Direction.FORWARD else "revert_pipeline"
        raise InvalidMigrationError(
            f"MongoDB does not accept the {setting}: {problem.rstrip('.')}. Correct it.", setting=setting
        )


def load_source(ports: Ports, name: str) -> Source:
    """The file of a migration, with requirements that exist.

    Raises:
        MigrationNotFoundError, InvalidMigrationError: It cannot be registered.
    """
    source = ports.catalog.find(name)
    if source is None:
        raise MigrationNotFoundError(
            f"There is no background migration file {name!r}; check the name."
            f"{did_you_mean(name, ports.catalog.names())}",
            name=name,
        )
    require_background_files(ports.catalog, name, source.requires)
    return source


def require_background_files(catalog: Catalog, name: str, requires: Iterable[str]) -> None:
    """See that what a file requires can be waited for: background migrations only.

    Raises:
        InvalidMigrationError: One of them is none, or cannot be used.
    """
    for first in requires:
        if catalog.find(first) is None:
            raise InvalidMigrationError(
                f"{name!r} requires {first!r}, which is no background migration; name an earlier background file.",
                name=name,
            )


def _fresh(ports: Ports, source: Source, direction: Direction, registration: str) -> BackgroundState:
    now = ports.store.now()
    return BackgroundState(
        name=source.name,
        registration=registration,
        status=Status.PENDING,
        checksum=source.checksum,
        spec=source.background.spec,
        description=source.description,
        direction=direction,
        requires=source.requires if direction is Direction.FORWARD else (),
        registered_at=now,
        updated_at=now,
    )


def _begun(fresh: BackgroundState, waiting: tuple[Awaited, ...], request: Request) -> BackgroundState:
    """The first line of its history, and whether it has to wait."""
    status = Status.BLOCKED if waiting else Status.PENDING
    entry = HistoryEntry(
        at=fresh.registered_at,
        action="register",
        from_status=None,
        to_status=status,
        by=request.by,
        reason=request.reason,
    )
    return evolve(fresh, status=status, waits_for=tuple(each.name for each in waiting), history=(entry,))


def _turn_round(ports: Ports, known: BackgroundState, state: BackgroundState) -> BackgroundState:
    """Register the other direction of a migration that has ended."""
    if known.status not in TERMINAL:
        raise BackgroundConflictError(
            f"{known.name!r} is {known.status} in the other direction; let it end, or cancel it first.",
            status=str(known.status),
        )
    # It has ended, so that no lane begins a batch; those that are in the middle of one commit nothing of it any more.
    ports.store.drop_leases(known.name)
    turned = evolve(
        state,
        revision=known.revision,
        generation=known.generation,
        rolled_generation=known.generation,
        totals=Counters(),
        history=(*known.history, *state.history),
    )
    saved = ports.store.save(turned)
    if saved is None:
        raise BackgroundConflictError(f"{known.name!r} was changed by somebody else just now; try again.")
    return saved


def _advice(state: BackgroundState, waiting: tuple[Awaited, ...], condition: Condition, *, indexed: bool) -> str | None:
    spec = state.spec
    told = []
    if waiting:
        told.append(sentence(f"It {waiting_text(waiting)}"))
    if state.note:
        told.append(sentence(state.note[0].upper() + state.note[1:]))
    if condition.sharded:
        told.append(SHARDED)
    if spec.guard is Guard.VERSION:
        told.append(
            'guard="version" sees concurrent changes of the version alone: a write of the application that falls '
            "between reading and writing a document can be lost."
        )
    if not indexed:
        told.append(
            f"{spec.collection} has no index {wanted_index(spec)}: the rewriting does not need it, but counting what "
            "is left scans the collection, and `migronaut background verify` does not look without it. To create it: "
            f"{create_index(spec)}"
        )
    return " ".join(told) or None
