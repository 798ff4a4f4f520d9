"""One migration in one direction, resolved for a lane: what matches, how to transform, how to guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from migronaut.core.ports import Documents, Pass
from migronaut.core.state import BackgroundState, Direction, Guard, Spec
from migronaut.engine.ports import Source
from migronaut.errors import TransactionsUnsupportedError
from migronaut.spec import Pipeline, Transform
from migronaut.versioning import UpdateBuilder, closing_stages, match_filter, match_hash


@frozen(kw_only=True)
class Work:
    """What a lane needs to know to work a pass.

    Args:
        checksum: Of the file that the transform came from.
        match: Query for the documents still to do.
        must_leave: Query that no rewritten document may match; None when versions decide.
        without: Ids of documents left out of this pass.
        guard: Resolved; for a pipeline ``snapshot`` (in transactions) or ``version`` (by its own filter).
        transform: The user's function; None where a pipeline does it.
        stages: The whole pipeline, the user's stages and ours; empty where a function does it.
        on_raise: Told of what the function raised, as it is.
    """

    name: str
    checksum: str
    spec: Spec
    direction: Direction
    this_pass: Pass
    match: Mapping[str, Any]
    must_leave: Mapping[str, Any] | None
    without: tuple[Any, ...]
    guard: Guard
    transform: Transform | None
    stages: Sequence[Mapping[str, Any]]
    builder: UpdateBuilder
    on_raise: Callable[[Exception], None]


def work_of(
    state: BackgroundState, source: Source, documents: Documents, *, on_raise: Callable[[Exception], None]
) -> Work:
    """Resolve a registered migration with the file that was found for it."""
    spec = state.spec
    match = match_filter(spec, state.direction)
    way = source.background.way(state.direction)
    return Work(
        name=state.name,
        checksum=state.checksum,
        spec=spec,
        direction=state.direction,
        this_pass=current_pass(state),
        match=match,
        must_leave=None if spec.versioned else match,
        without=state.bad_ids,
        guard=resolve_guard(spec, state.direction, transactions=documents.transactions()),
        transform=way if isinstance(way, Transform) else None,
        stages=stages_of(way, spec, state.direction),
        builder=UpdateBuilder.of(spec, state.direction),
        on_raise=on_raise,
    )


def stages_of(way: Transform | Pipeline, spec: Spec, direction: Direction) -> Sequence[Mapping[str, Any]]:
    """The whole pipeline of one direction; empty where it has none."""
    return [*way.stages, *closing_stages(spec, direction)] if isinstance(way, Pipeline) else []


def current_pass(state: BackgroundState) -> Pass:
    """The pass that the state's plan stands for."""
    return Pass(background=state.name, generation=state.generation, plan=state.plan.token if state.plan else "")


def match_of(state: BackgroundState) -> str:
    """The match hash of a state's own spec and direction."""
    return match_hash(state.spec, state.direction)


def resolve_guard(spec: Spec, direction: Direction, *, transactions: bool) -> Guard:
    """Choose the guard that this server can give.

    The server changes each document of a pipeline in one step, so that without transactions its own filter is guard
    enough.

    Raises:
        TransactionsUnsupportedError: ``snapshot`` on a standalone server, or ``auto`` there without a
            revision field to fall back on.
    """
    if spec.guard is Guard.AUTO:
        if transactions:
            return Guard.SNAPSHOT
        if spec.by_pipeline(direction):
            return Guard.VERSION
        if spec.revision_field is not None:
            return Guard.REVISION
        raise TransactionsUnsupportedError(
            "This MongoDB is a standalone server, which has no transactions to guard writes with: use a replica set, "
            "or give revision_field= if every writer of the collection bumps a revision, "
            'or guard="version" to watch concurrent changes of the version alone.'
        )
    if spec.guard is Guard.SNAPSHOT and not transactions:
        raise TransactionsUnsupportedError(
            'guard="snapshot" needs transactions and this MongoDB is a standalone server: use a replica set, '
            'or guard="revision" with a revision_field.'
        )
    return spec.guard
