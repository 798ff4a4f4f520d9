"""The documents of a simulation: shapes that follow each other, and what leads from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from migronaut.core.state import Direction

FIELDS = ("old", "new", "newer", "newest")
"""The one of these that a document has is its shape; shape n has version n + 1."""
_APART = 100
"""What a value grows by on the way to the next shape, so that nobody takes it for its own."""


def shape_of(document: Mapping[str, Any]) -> int:
    """The number of a document's shape."""
    return next(number for number, field in enumerate(FIELDS) if field in document)


def ends_of(step: int, direction: Direction) -> tuple[int, int]:
    """The shapes that a migration leads from and to.

    Args:
        step: The shape before it, forward.
    """
    return (step, step + 1) if direction is Direction.FORWARD else (step + 1, step)


def reshape(document: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    """Give a document another shape, as it is, and nothing else."""
    document[FIELDS[target]] = document.pop(FIELDS[source]) + _APART * (target - source)
    return document


def migrate(document: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    """The transform of the simulated migrations."""
    reshape(document, source, target)
    document["done"] += 1
    return document


def pipeline(source: int, target: int) -> Sequence[Mapping[str, Any]]:
    """What ``migrate`` does, for the server."""
    moved = {"$add": [f"${FIELDS[source]}", _APART * (target - source)]}
    return ({"$set": {FIELDS[target]: moved, "done": {"$add": ["$done", 1]}}}, {"$unset": FIELDS[source]})


def migrated(
    document: Mapping[str, Any], source: int, target: int, *, revisions: bool, versioned: bool
) -> dict[str, Any]:
    """What a lane must make of a stored document."""
    after = migrate(dict(document), source, target)
    if versioned:
        after["schema_version"] = target + 1
    if revisions:
        after["rev"] = after.get("rev", 0) + 1
    return after


def original(random: Random, id_: Any, *, revisions: bool, versioned: bool) -> dict[str, Any]:
    """A document as it was before any migration."""
    document: dict[str, Any] = {
        "_id": id_,
        "kind": random.choice("xy"),
        "hits": 0,
        "done": 0,
        "old": random.randrange(9),
    }
    if versioned:
        document["schema_version"] = 1
    if revisions:
        document["rev"] = random.randrange(3)
    return document


def advanced(document: Mapping[str, Any], shape: int) -> Mapping[str, Any]:
    """The same document in another shape, which the application gave it."""
    after = reshape(dict(document), 0, shape) if shape else dict(document)
    if "schema_version" in after:
        after["schema_version"] = shape + 1
    return after
