"""What each setting may be, and which of them go together; every problem is found, not only the first."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from migronaut.core.state import Guard, Spec
from migronaut.errors import InvalidMigrationError
from migronaut.spec.callables import callable_problem
from migronaut.spec.filters import filter_without
from migronaut.spec.pipelines import stages_leaving
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

_CHECKS: Mapping[str, Check] = {
    "collection": collection_name,
    "from_version": optional(whole_number(0)),
    "to_version": optional(whole_number(0)),
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
FORWARD = ("migrate", "migrate_many", "pipeline")
BACK = ("revert", "revert_many", "revert_pipeline")
_PIPELINES = ("pipeline", "revert_pipeline")
_NOT_BY_PIPELINE = ("max_conflict_retries",)
"""Settings for documents that are read and written back: a pipeline changes each where it is."""
_LARGEST_BATCH = 10_000
_PIPELINE_BATCH, _LARGEST_PIPELINE_BATCH = 5000, 100_000
_LATER = (
    "step",
    "revert_step",
    "transaction",
    "adaptive",
    "throttle",
    "max_replication_lag",
)
_OF_THE_FILE = {"requires": 'requires = ["an_earlier_background_file.py"]'}
"""What stands beside ``background`` in the file, not in it."""
_KNOWN = (*_CHECKS, "batch_size", *_FILTERS, *FORWARD, *BACK, "description")

Problems = list[tuple[str, str]]


def resolve(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check all settings: as plain values those that were given, and the batch size of a pipeline.

    Raises:
        InvalidMigrationError: One or more are unusable; all of them are listed.
    """
    problems = _unknown_or_later(given)
    resolved = _each(given, problems)
    problems += _version_problems(resolved, given)
    problems += _predicate_problems(resolved, given)
    problems += _way_problems(given)
    problems += _guard_problems(resolved, given)
    problems += _pipeline_problems(given)
    if problems:
        raise _invalid(problems)
    return resolved


def _unknown_or_later(given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    for name, value in given.items():
        if name in _LATER:
            if value is not None and value is not False:
                problems.append((name, "is not supported yet; leave it out"))
        elif name in _OF_THE_FILE:
            problems.append((name, f"belongs to the file: write `{_OF_THE_FILE[name]}` beside background"))
        elif name not in _KNOWN:
            close = difflib.get_close_matches(name, (*_KNOWN, *_LATER), n=1)
            problems.append((name, "is not a setting" + (f"; did you mean {close[0]}?" if close else "")))
    return problems


def _each(given: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Check each setting by itself; the others keep the defaults of ``Spec``, but for the batch size of a pipeline."""
    resolved: dict[str, Any] = {}

    def take(name: str, check: Check) -> None:
        """Check one setting that was given."""
        try:
            resolved[name] = check(given[name])
        except RefusedError as refused:
            problems.append((name, str(refused)))

    largest = _LARGEST_BATCH
    if _only_pipelines(given):
        largest, resolved["batch_size"] = _LARGEST_PIPELINE_BATCH, _PIPELINE_BATCH
    checks = {**_CHECKS, "description": text, "batch_size": whole_number(1, largest)}
    for name, check in checks.items():
        if name in given:
            take(name, check)
    if "collection" not in given:
        problems.append(("collection", "is required"))
    own = resolved.get("version_field") if "version_field" in given else Spec(collection="").version_field
    for name in _FILTERS:
        if given.get(name) is not None:
            take(name, filter_without(own))
    versioned = {own} if _chosen_by_version(given) else set()
    kept = frozenset(name for name in (*versioned, resolved.get("revision_field")) if name is not None)
    for name in _PIPELINES:
        if given.get(name) is not None:
            take(name, stages_leaving(kept))
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
    back = any(given.get(name) is not None for name in BACK)
    problems: Problems = []
    if given.get("revert_filter") is not None and not back:
        problems.append(("revert_filter", "is given without a way back; add one, or leave it out"))
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


def _way_problems(given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    forward, back = ([name for name in names if given.get(name) is not None] for names in (FORWARD, BACK))
    if not forward and not given.get("step"):
        problems.append(("migrate", "is missing; give exactly one of migrate, migrate_many and pipeline"))
    for names in (forward, back):
        if len(names) > 1:
            problems.append((names[1], f"is given as well as {names[0]}; give one of them"))
    for name in forward + back:
        if name not in _PIPELINES and (problem := callable_problem(given[name], allowed=(1, 2))):
            problems.append((name, problem))
    return problems


def _pipeline_problems(given: Mapping[str, Any]) -> Problems:
    """What would be ignored is refused."""
    if not _only_pipelines(given):
        return []
    problems = [
        (name, "is not used by a pipeline: the server changes each document where it is; leave it out")
        for name in _NOT_BY_PIPELINE
        if name in given
    ]
    if given.get("guard") == Guard.REVISION:
        problems.append(("guard", "is 'revision', which a pipeline does not use: leave it out, or give 'version'"))
    return problems


def _only_pipelines(given: Mapping[str, Any]) -> bool:
    ways = [name for name in (*FORWARD, *BACK) if given.get(name) is not None]
    return bool(ways) and all(name in _PIPELINES for name in ways)


def _guard_problems(resolved: Mapping[str, Any], given: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    chosen = resolved.get("guard")
    if chosen is Guard.REVISION and given.get("revision_field") is None:
        problems.append(("guard", "is 'revision', which needs revision_field: the counter that every writer bumps"))
    if chosen is Guard.VERSION and not _chosen_by_version(given) and not _only_pipelines(given):
        problems.append(("guard", "is 'version', which needs from_version and to_version"))
    version_field = resolved.get("version_field", Spec(collection="").version_field)
    if resolved.get("revision_field") == version_field:
        problems.append(("revision_field", "must be another field than version_field"))
    return problems


def _invalid(problems: Problems) -> InvalidMigrationError:
    listed = "; ".join(f"{name} {problem}" for name, problem in problems)
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidMigrationError(
        f"This Background(...) has {count}: {listed}.",
        problems=[{"setting": name, "problem": problem} for name, problem in problems],
    )
