"""Scopes and type brackets as MongoDB queries on ``_id``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isnan
from typing import Any

from bson.decimal128 import Decimal128

from migronaut.core.state import Cursor, Scope

_ALIASES = {"double": "number", "int": "number", "long": "number", "decimal": "number"}


def type_filter(bracket: str) -> dict[str, Any]:
    """Values of one bracket. Needed beside a range too: ``$gt: MinKey`` crosses brackets."""
    return {"$type": bracket}


def bracket_of(type_name: str) -> str:
    """The bracket of a value whose type the server calls ``type_name``."""
    return _ALIASES.get(type_name, type_name)


def scope_filter(scope: Scope, after: Cursor | None) -> dict[str, Any]:
    """Query for what is left of a scope behind a cursor."""
    bounds = type_filter(scope.bracket)
    from_nan = scope.bracket == "number" and after is None and not scope.bounded_below
    if from_nan and scope.bounded_above and not _is_nan(scope.upper):
        # NaN sorts before all numbers, but is not less than any.
        return {"_id": bounds | {"$not": {"$gt": scope.upper}}}
    if after is not None:
        bounds |= _above(after.last_id)
    elif scope.bounded_below:
        bounds |= _above(scope.lower)
    if scope.bounded_above:
        bounds["$lte"] = scope.upper
    return {"_id": bounds}


def _above(value: Any) -> dict[str, Any]:
    # NaN sorts before all numbers, but no range operator says so.
    return {"$gte": float("-inf")} if _is_nan(value) else {"$gt": value}


def _is_nan(value: Any) -> bool:
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    return isinstance(number, float | Decimal) and isnan(number)


def all_of(*filters: Mapping[str, Any]) -> dict[str, Any]:
    """The conjunction of filters, without merging keys."""
    given = [dict(each) for each in filters if each]
    return given[0] if len(given) == 1 else {"$and": given} if given else {}
