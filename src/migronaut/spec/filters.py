"""What a filter of a migration may not say.

The engine adds the version to every filter itself, and server-side JavaScript neither uses an
index nor gives the same answer twice for sure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import bson
from bson.errors import BSONError

from migronaut.spec.values import Check, RefusedError
from migronaut.versioning import CODEC

_JAVASCRIPT = ("$where", "$function", "$accumulator")
_SEARCHES = ("$near", "$nearSphere", "$text")
_LOGICAL = ("$and", "$or", "$nor")
_MAX_DEPTH = 100
_DOCUMENT_VARIABLES = ("$$ROOT.", "$$CURRENT.")


def filter_without(version_field: str | None) -> Check:
    """Accept a filter that leaves the version alone and runs no JavaScript; a copy is kept.

    Args:
        version_field: The field the engine filters by; None when that setting is itself unusable.
    """

    def check(value: object) -> Mapping[str, Any]:
        """Accept a query that leaves the version alone."""
        if not isinstance(value, Mapping):
            raise RefusedError(f"must be a mapping, a MongoDB query, not {type(value).__name__}")
        refuse_javascript(value)
        _refuse_searches(value)
        if version_field is not None and _mentions(value, version_field):
            raise RefusedError(
                f"must not mention the version field {version_field!r}; from_version and to_version choose by version"
            )
        refuse_unencodable(value)
        return copy.deepcopy(dict(value))

    return check


def refuse_javascript(value: object) -> None:
    """Refuse JavaScript at any depth of a query or a stage, and what is nested too deeply."""
    keys = set(_keys(value, depth=1))
    for operator in _JAVASCRIPT:
        if operator in keys:
            raise RefusedError(f"must not use {operator}; JavaScript on the server is not supported")


def _refuse_searches(query: object) -> None:
    """Refuse what needs an index of its own: documents are read in the order of their ids."""
    keys = set(_keys(query, depth=1))
    for operator in _SEARCHES:
        if operator in keys:
            raise RefusedError(f"must not use {operator}, which goes by an index of its own; documents are read by _id")


def refuse_unencodable(value: object) -> None:
    """Refuse what holds anything but BSON."""
    try:
        bson.encode({"": value}, codec_options=CODEC)
    # The cause quotes the value, so it is cut off.
    except (BSONError, OverflowError, RecursionError, TypeError, ValueError):
        raise RefusedError("holds a value that BSON cannot store; use plain BSON types") from None


def _keys(value: object, *, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise RefusedError(f"is nested deeper than the {_MAX_DEPTH} levels that MongoDB accepts")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise RefusedError("must have text as its keys")
            yield key
            yield from _keys(item, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item, depth=depth + 1)


def _mentions(query: object, name: str) -> bool:
    if not isinstance(query, Mapping):
        return False
    for key, item in query.items():
        if _is_path(key, name):
            return True
        if key in _LOGICAL and isinstance(item, list | tuple) and any(_mentions(part, name) for part in item):
            return True
        if key == "$expr" and _expression_mentions(item, name):
            return True
    return False


def _is_path(path: str, name: str) -> bool:
    return path == name or path.startswith(name + ".")


def _expression_mentions(expression: object, name: str) -> bool:
    if isinstance(expression, str):
        return _is_field_path(expression, name)
    if isinstance(expression, list | tuple):
        return any(_expression_mentions(part, name) for part in expression)
    if not isinstance(expression, Mapping):
        return False
    return any(
        _gets_field(item, name) if key == "$getField" else _expression_mentions(item, name)
        for key, item in expression.items()
        if key != "$literal"
    )


def _is_field_path(text: str, name: str) -> bool:
    for variable in _DOCUMENT_VARIABLES:
        if text.startswith(variable):
            return _is_path(text.removeprefix(variable), name)
    return text.startswith("$") and _is_path(text[1:], name)


def _gets_field(argument: object, name: str) -> bool:
    """``$getField`` names a field without a dollar sign, bare or under ``field``."""
    named = argument.get("field") if isinstance(argument, Mapping) else argument
    return named in (name, {"$literal": name}) or _expression_mentions(argument, name)
