"""``Background``: the declaration in a background migration file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Required, TypedDict, Unpack

from attrs import field, frozen

from migronaut.core.state import Direction, Guard, Partitioning, Spec
from migronaut.errors import InvalidMigrationError, IrreversibleMigrationError
from migronaut.spec.callables import callable_problem
from migronaut.spec.filters import filter_without
from migronaut.spec.transform import Transform, transform_many, transform_one_by_one
from migronaut.spec.values import (
    Check,
    RefusedError,
    collection_name,
    field_name,
    guard,
    optional,
    partitions,
    seconds,
    text,
    whole_number,
    write_concern,
)


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


_CHECKS: Mapping[str, Check] = {
    "collection": collection_name,
    "from_version": optional(whole_number(0)),
    "to_version": optional(whole_number(0)),
    "batch_size": whole_number(1, 10_000),
    "pause": seconds(0, 3600),
    "slice_length": seconds(1, 3600),
    "write_concern": write_concern,
    "max_document_errors": whole_number(0, 1000),
    "max_passes": whole_number(1, 1000),
    "max_conflict_retries": whole_number(0, 100),
    "max_slice_failures": whole_number(1, 100),
    "max_parallel": whole_number(1, 64),
    "partitions": partitions,
    "guard": guard,
    "version_field": field_name,
    "revision_field": optional(field_name),
}
_FILTERS = ("filter", "revert_filter")
_FORWARD = ("migrate", "migrate_many")
_BACK = ("revert", "revert_many")
_LATER = (
    "pipeline",
    "revert_pipeline",
    "step",
    "revert_step",
    "transaction",
    "adaptive",
    "throttle",
    "max_replication_lag",
)
_KNOWN = (*_CHECKS, *_FILTERS, *_FORWARD, *_BACK, "description")

Problems = list[tuple[str, str]]


@frozen(init=False, eq=False)
class Background:
    """A background migration: which documents, how one is rewritten, and how carefully.

    Documents are chosen by version (``from_version`` and ``to_version``, and an optional ``filter``;
    the engine sets the version) or by predicate (only ``filter``, which a document matches until it
    is migrated). Exactly one of ``migrate`` and ``migrate_many`` is given, at most one of ``revert``
    and ``revert_many``; each may take the context as its second parameter. Durations are seconds
    or a ``timedelta``.

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
        description: One line for people; else the first line of the module's docstring.
        batch_size: Documents read and written at once, 1-10 000, default 500.
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
    _forward: Transform = field(repr=False)
    _back: Transform | None = field(repr=False)

    def __init__(self, **settings: Unpack[Settings]) -> None:
        given: dict[str, Any] = dict(settings)
        problems = _unknown_or_later(given)
        resolved = _resolve(given, problems)
        problems += _version_problems(resolved, given)
        problems += _predicate_problems(resolved, given)
        problems += _callable_problems(given)
        problems += _guard_problems(resolved, given)
        if problems:
            raise _invalid(problems)
        back = next(filter(None, (given.get(name) for name in _BACK)), None)
        description = resolved.pop("description", "")
        spec = Spec(batched=given.get("migrate_many") is not None, reversible=back is not None, **resolved)
        self.__attrs_init__(spec, description, _transform(given, _FORWARD), back and _transform(given, _BACK))

    def transform(self, direction: Direction | str) -> Transform:
        """Return the function that rewrites documents in one direction.

        Raises:
            IrreversibleMigrationError: The migration declares no way back.
        """
        if Direction(direction) is Direction.FORWARD:
            return self._forward
        if self._back is None:
            raise IrreversibleMigrationError(
                "This background migration has no way back; give it a revert or revert_many to make it reversible."
            )
        return self._back


def _unknown_or_later(given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    for name, value in given.items():
        if name in _LATER:
            if value is not None and value is not False:
                problems.append((name, "is not supported yet; leave it out"))
        elif name not in _KNOWN:
            close = difflib.get_close_matches(name, (*_KNOWN, *_LATER), n=1)
            problems.append((name, "is not a setting" + (f"; did you mean {close[0]}?" if close else "")))
    return problems


def _resolve(given: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Check each setting by itself; the ones that are not given keep the defaults of ``Spec``."""
    resolved: dict[str, Any] = {}

    def take(name: str, check: Check) -> None:
        try:
            resolved[name] = check(given[name])
        except RefusedError as refused:
            problems.append((name, str(refused)))

    for name, check in {**_CHECKS, "description": text}.items():
        if name in given:
            take(name, check)
    if "collection" not in given:
        problems.append(("collection", "is required"))
    own = resolved.get("version_field") if "version_field" in given else Spec(collection="").version_field
    for name in _FILTERS:
        if given.get(name) is not None:
            take(name, filter_without(own))
    return resolved


def _version_problems(resolved: Mapping[str, Any], given: Mapping[str, Any]) -> Problems:
    first, last = (given.get(name) is not None for name in ("from_version", "to_version"))
    if first != last:
        missing = "to_version" if first else "from_version"
        return [(missing, "is missing; give both versions, or neither to choose by filter alone")]
    start, end = resolved.get("from_version"), resolved.get("to_version")
    if start is not None and end is not None and end <= start:
        return [("to_version", f"must be greater than from_version, which is {start}")]
    return []


def _predicate_problems(resolved: Mapping[str, Any], given: Mapping[str, Any]) -> Problems:
    """By predicate the filter alone says what is left, so it must be there and must exclude something."""
    back = any(given.get(name) is not None for name in _BACK)
    problems: Problems = []
    if given.get("revert_filter") is not None and not back:
        problems.append(("revert_filter", "is given without a way back; add revert or revert_many, or leave it out"))
    if _chosen_by_version(given):
        return problems
    if given.get("filter") is None:
        problems.append(("filter", "is missing; say what is left to do by from_version and to_version, or by a filter"))
    if back and given.get("revert_filter") is None:
        problems.append(("revert_filter", "is missing; a way back by filter needs it to find what to revert"))
    problems += [
        (name, "is empty; every document would match for ever, so the migration would never end")
        for name in _FILTERS
        if resolved.get(name) == {}
    ]
    return problems


def _chosen_by_version(given: Mapping[str, Any]) -> bool:
    return given.get("from_version") is not None or given.get("to_version") is not None


def _callable_problems(given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    forward, back = ([name for name in names if given.get(name) is not None] for names in (_FORWARD, _BACK))
    if not forward and not any(given.get(name) for name in ("pipeline", "step")):
        problems.append(("migrate", "is missing; give exactly one of migrate and migrate_many"))
    for names in (forward, back):
        if len(names) > 1:
            problems.append((names[1], f"is given as well as {names[0]}; give one of them"))
    for name in forward + back:
        if problem := callable_problem(given[name], allowed=(1, 2)):
            problems.append((name, problem))
    return problems


def _guard_problems(resolved: Mapping[str, Any], given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    chosen = resolved.get("guard")
    if chosen is Guard.REVISION and given.get("revision_field") is None:
        problems.append(("guard", "is 'revision', which needs revision_field: the counter that every writer bumps"))
    if chosen is Guard.VERSION and not _chosen_by_version(given):
        problems.append(("guard", "is 'version', which needs from_version and to_version"))
    version_field = resolved.get("version_field", Spec(collection="").version_field)
    if resolved.get("revision_field") == version_field:
        problems.append(("revision_field", "must be another field than version_field"))
    return problems


def _transform(given: Mapping[str, Any], names: tuple[str, str]) -> Transform:
    one, many = names
    if given.get(one) is not None:
        return transform_one_by_one(given[one])
    return transform_many(given[many])


def _invalid(problems: Problems) -> InvalidMigrationError:
    listed = "; ".join(f"{name} {problem}" for name, problem in problems)
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidMigrationError(
        f"This Background(...) has {count}: {listed}.",
        problems=[{"setting": name, "problem": problem} for name, problem in problems],
    )
