"""What a pipeline of the user's is followed by: the version and the revision of the new document."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from migronaut.core.state import Direction, Spec
from migronaut.versioning.contract import EXACT_DOUBLE, LAST


def closing_stages(spec: Spec, direction: Direction) -> list[dict[str, Any]]:
    """What follows the stages of a user's pipeline: the version of the new shape, and a revision counted up.

    A document whose version or revision is not what ``read_version`` takes makes the server refuse it.
    """
    ours: dict[str, Any] = {}
    if spec.versioned:
        target = spec.to_version if direction is Direction.FORWARD else spec.from_version
        path = f"${spec.version_field}"
        # The filter saw to the value; a list that holds it, or a decimal, matched as well.
        ours[spec.version_field] = _only_if({"$in": [{"$type": path}, _WHOLE_OR_NOTHING]}, target or "$$REMOVE", path)
    if spec.revision_field is not None:
        path = f"${spec.revision_field}"
        counted = {"$add": [{"$ifNull": [path, 0]}, 1]}
        ours[spec.revision_field] = _only_if(_is_count(path), counted, path)
    return [{"$set": ours}] if ours else []


_WHOLE_OR_NOTHING = ["missing", "null", "int", "long", "double"]


def _is_count(path: str) -> dict[str, Any]:
    """``read_version`` as an expression."""
    kind = {"$type": path}
    whole = {"$and": [{"$in": [kind, ["int", "long"]]}, {"$gte": [path, 0]}, {"$lt": [path, Int64(LAST)]}]}
    double = [{"$eq": [kind, "double"]}, {"$gte": [path, 0]}, {"$lt": [path, float(EXACT_DOUBLE)]}]
    integral = {"$and": [*double, {"$eq": [path, {"$trunc": path}]}]}
    return {"$or": [{"$in": [kind, ["missing", "null"]]}, whole, integral]}


def _only_if(condition: dict[str, Any], value: Any, path: str) -> dict[str, Any]:
    """An expression that fails where the condition does not hold: the name of a type is no number."""
    return {"$cond": [condition, value, {"$toInt": {"$type": path}}]}
