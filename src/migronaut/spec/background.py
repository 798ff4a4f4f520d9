"""``Background``: the declaration in a background migration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Required, TypedDict, Unpack

from attrs import field, frozen

from migronaut.core.state import Direction, Guard, Partitioning, Spec
from migronaut.errors import IrreversibleMigrationError
from migronaut.spec.checking import BACK, FORWARD, resolve
from migronaut.spec.pipelines import Pipeline
from migronaut.spec.transform import Transform, transform_many, transform_one_by_one


class Settings(TypedDict, total=False):
    """The keyword arguments of ``Background``."""

    collection: Required[str]
    from_version: int | None
    to_version: int | None
    filter: Mapping[str, Any] | None
    revert_filter: Mapping[str, Any] | None
    migrate: Callable[..., object] | None
    migrate_many: Callable[..., object] | None
    revert: Callable[..., object] | None
    revert_many: Callable[..., object] | None
    pipeline: Sequence[Mapping[str, Any]] | None
    revert_pipeline: Sequence[Mapping[str, Any]] | None
    description: str
    batch_size: int
    pause: float | timedelta
    slice_length: float | timedelta
    write_concern: Mapping[str, Any]
    max_document_errors: int
    max_passes: int
    max_conflict_retries: int
    max_slice_failures: int
    max_parallel: int
    partitions: Partitioning
    guard: Guard | str
    version_field: str
    revision_field: str | None


@frozen(init=False, eq=False)
class Background:
    """A background migration: which documents, how one is rewritten, and how carefully.

    Documents are chosen by version (``from_version`` and ``to_version``, and an optional ``filter``;
    the engine sets the version) or by predicate (only ``filter``, which a document matches until it
    is migrated). Exactly one of ``migrate``, ``migrate_many`` and ``pipeline`` is given, at most one
    of ``revert``, ``revert_many`` and ``revert_pipeline``; functions may take the context as their second
    parameter. Durations are seconds or a ``timedelta``.

    Args:
        collection: The collection to rewrite.
        from_version: Version of the documents to rewrite, at least 0; a missing one counts as 0.
        to_version: Version they have afterwards, greater than ``from_version``.
        filter: Query for the documents to rewrite; it must not mention the version field.
        revert_filter: The same for the way back; needed there when chosen by predicate.
        migrate: Takes a copy of a document, returns the whole new document.
        migrate_many: Takes a list of copies, returns one result per document, in order; an
            exception object among them fails that document only.
        revert: The way back, like ``migrate``.
        revert_many: The way back, like ``migrate_many``.
        pipeline: Stages that the server runs on each document, so that none crosses the wire:
            ``$set``, ``$unset``, ``$project``, ``$replaceWith`` and their other names.
        revert_pipeline: The way back, like ``pipeline``.
        description: One line for people; else the first line of the module's docstring.
        batch_size: Documents read and written at once, 1-10 000, default 500; with a pipeline
            rewritten by one statement at most, 1-100 000, default 5000.
        pause: Between two batches, 0-3600 s, default 0.1.
        slice_length: How long a lane works before it gives way, 1-3600 s, default 30.
        write_concern: Default ``{"w": "majority"}``; ``w: 0`` is refused.
        max_document_errors: Documents that may fail before the migration does, 0-1000, default 0.
        max_passes: Passes over the collection, 1-1000, default 10.
        max_conflict_retries: Rounds for a document that is being written, 0-100, default 3.
        max_slice_failures: Failures of one partition in a row, 1-100, default 3.
        max_parallel: Lanes in all processes together, 1-64, default 1.
        partitions: How the collection is cut, a ``Partitioning``.
        guard: ``"auto"``, ``"snapshot"``, ``"revision"`` or ``"version"``.
        version_field: Default ``"schema_version"``.
        revision_field: A counter that every writer bumps; none by default.

    Raises:
        InvalidMigrationError: One or more settings are unusable. All of them are listed in the
            message and in ``context["problems"]`` as ``{"setting", "problem"}``.
    """

    spec: Spec
    description: str
    _forward: Transform | Pipeline = field(repr=False)
    _back: Transform | Pipeline | None = field(repr=False)

    def __init__(self, **settings: Unpack[Settings]) -> None:
        given: dict[str, Any] = dict(settings)
        resolved = resolve(given)
        description = resolved.pop("description", "")
        forward, back = (_way(given | resolved, names) for names in (FORWARD, BACK))
        assert forward is not None, "resolve() refuses settings without a way forward"
        spec = Spec(
            batched=given.get("migrate_many") is not None,
            reversible=back is not None,
            pipeline=resolved.pop("pipeline", None) is not None,
            revert_pipeline=resolved.pop("revert_pipeline", None) is not None,
            **resolved,
        )
        self.__attrs_init__(spec, description, forward, back)

    def way(self, direction: Direction | str) -> Transform | Pipeline:
        """Return what rewrites documents in one direction.

        Raises:
            IrreversibleMigrationError: The migration declares no way back.
        """
        if Direction(direction) is Direction.FORWARD:
            return self._forward
        if self._back is None:
            raise IrreversibleMigrationError(
                "This background migration has no way back; give it a revert, revert_many or revert_pipeline to make "
                "it reversible."
            )
        return self._back


def _way(given: Mapping[str, Any], names: tuple[str, str, str]) -> Transform | Pipeline | None:
    one, many, pipeline = (given.get(name) for name in names)
    if one is not None:
        return transform_one_by_one(one)
    if many is not None:
        return transform_many(many)
    return None if pipeline is None else Pipeline(stages=pipeline)
