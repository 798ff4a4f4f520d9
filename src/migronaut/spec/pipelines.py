"""Pipelines that the server runs on each document: which stages they may have, and what the stages must leave alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from attrs import frozen
from bson.decimal128 import Decimal128

from migronaut.spec.filters import refuse_javascript, refuse_unencodable
from migronaut.spec.values import Check, RefusedError

Stage = Mapping[str, Any]

_SETTING = ("$set", "$addFields")
_REPLACING = ("$replaceWith", "$replaceRoot")
_ALLOWED = ("$set", "$addFields", "$unset", "$project", "$replaceWith", "$replaceRoot")


@frozen
class Pipeline:
    """Stages of a migration file, completed so that none of them drops what is ours."""

    stages: Sequence[Stage]


def stages_leaving(own: frozenset[str]) -> Check:
    """Accept stages of an update that leave ``_id`` and our own fields alone; a copy is kept.

    A stage that makes a new document (``$replaceWith``, a ``$project`` that names what stays) gets our
    fields added, so that they are carried through it.

    Args:
        own: The version and revision fields that the migration keeps.
    """
    kept = {"_id", *own}

    def check(value: object) -> Sequence[Stage]:
        """Accept stages that leave these fields alone."""
        if not isinstance(value, list | tuple) or not value:
            raise RefusedError("must be a list of stages, such as [{'$set': {...}}, {'$unset': 'old'}]")
        refuse_javascript(value)
        stages = [_carrying(_checked(number, stage, kept), own) for number, stage in enumerate(value, start=1)]
        refuse_unencodable(stages)
        return tuple(copy.deepcopy(stages))

    return check


def _checked(number: int, stage: object, kept: set[str]) -> tuple[str, Any]:
    """Name and argument of a stage that may run."""
    if not isinstance(stage, Mapping) or len(stage) != 1:
        raise RefusedError(f"has no stage with exactly one name, such as {{'$set': ...}}, at position {number}")
    ((name, argument),) = stage.items()
    if name not in _ALLOWED:
        shown = name if isinstance(name, str) else type(name).__name__
        raise RefusedError(f"has the stage {shown} at position {number}; an update takes {', '.join(_ALLOWED)} only")
    argument = _argument(number, name, argument)
    touched = sorted({path.split(".")[0] for path in _touched(name, argument)} & kept)
    if touched:
        raise RefusedError(f"touches {', '.join(touched)} at position {number}; _id stays, and our own fields are ours")
    return name, argument


def _argument(number: int, name: str, argument: Any) -> Any:
    """The argument in one form: a list of names for ``$unset``, the new root for ``$replaceRoot``."""
    if name == "$unset":
        names = [argument] if isinstance(argument, str) else argument
        if not isinstance(names, list | tuple) or not names or not all(isinstance(each, str) for each in names):
            raise RefusedError(f"has a $unset without field names at position {number}")
        return list(names)
    if name == "$replaceRoot":
        if not isinstance(argument, Mapping) or set(argument) != {"newRoot"}:
            raise RefusedError(f"has a $replaceRoot without newRoot at position {number}")
        return argument["newRoot"]
    if name != "$replaceWith" and (not isinstance(argument, Mapping) or not argument):
        raise RefusedError(f"has a {name} without fields at position {number}")
    return argument


def _touched(name: str, argument: Any) -> Iterator[str]:
    """Paths that a stage changes or removes, as far as it says so itself."""
    if name == "$unset" or name in _SETTING:
        yield from argument
    elif name == "$project":
        yield from (path for path, value in argument.items() if not _includes(value))
    else:
        yield from _built(argument)


def _built(expression: object) -> Iterator[str]:
    """Fields that a new root gives a value of its own."""
    if not isinstance(expression, Mapping):
        return
    if "$mergeObjects" in expression:
        parts = expression["$mergeObjects"]
        for part in parts if isinstance(parts, list | tuple) else [parts]:
            yield from _built(part)
        return
    yield from (key for key, value in expression.items() if not key.startswith("$") and value != f"${key}")


def _includes(value: object) -> bool:
    """In a ``$project``: "leave this field as it is"."""
    return _flag(value) is True


def _excludes(value: object) -> bool:
    """In a ``$project``: "leave it out", or a part of it."""
    if isinstance(value, Mapping):
        return not any(key.startswith("$") for key in value) and any(_excludes(part) for part in value.values())
    return _flag(value) is False


def _flag(value: object) -> bool | None:
    """What a number or a bool stands for in a ``$project``; None for an expression."""
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    return bool(number) if isinstance(number, bool | int | float | Decimal) else None


def _carrying(stage: tuple[str, Any], own: frozenset[str]) -> Stage:
    """The stage, with our fields added to the new document that it makes."""
    name, argument = stage
    if name in _REPLACING:
        return {"$replaceWith": _carried_root(argument, own)}
    if name == "$project" and not any(_excludes(value) for path, value in argument.items() if path != "_id"):
        return {name: {**argument, **dict.fromkeys(sorted(own), 1)}}
    return {name: argument}


def _carried_root(root: Any, own: frozenset[str]) -> Any:
    """A root that is no document is left as it is, so that the server refuses it; merged, it would count as empty."""
    # Null where there is none, so that a field of that name in the new root does not pass for ours.
    ours = {"_id": "$_id"} | {field: {"$ifNull": [f"${field}", None]} for field in sorted(own)}
    merged = {"$mergeObjects": ["$$root", ours]}
    is_document = {"$eq": [{"$type": "$$root"}, "object"]}
    return {"$let": {"vars": {"root": root}, "in": {"$cond": [is_document, merged, "$$root"]}}}
