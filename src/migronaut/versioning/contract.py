"""Versions and revisions: which documents are still to do, and what guards the write of one."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import bson
from bson.int64 import Int64

from migronaut.core.state import Direction, Guard, Spec
from migronaut.errors import InvalidMigrationError
from migronaut.versioning.codec import CODEC, DocumentInvalidError

EXACT_DOUBLE = 2**53
LAST = 2**63 - 1
"""The largest whole number of BSON: it cannot be counted up."""


def match_filter(spec: Spec, direction: Direction) -> dict[str, Any]:
    """Query for the documents that are still to do.

    Raises:
        InvalidMigrationError: The migration goes by predicate and has none for this direction.
    """
    forward = direction is Direction.FORWARD
    extra = spec.filter if forward else spec.revert_filter
    if not spec.versioned:
        if extra is None:
            setting = "filter" if forward else "revert_filter"
            raise InvalidMigrationError(
                f"A migration without versions finds its documents by {setting}, and has none: give one.",
                setting=setting,
            )
        return dict(extra)
    source = spec.from_version if forward else spec.to_version
    by_version: dict[str, Any] = {spec.version_field: source or {"$in": [None, 0]}}
    return {"$and": [by_version, dict(extra)]} if extra else by_version


def match_hash(spec: Spec, direction: Direction) -> str:
    """SHA-256, in hex, of everything that decides which documents match; another hash, another plan."""
    facts = {
        "collection": spec.collection,
        "versions": [spec.from_version, spec.to_version],
        "filter": match_filter(spec, direction),
        "fields": [spec.version_field, spec.revision_field],
        "direction": direction.value,
    }
    return sha256(bson.encode(facts, codec_options=CODEC)).hexdigest()


def read_version(doc: Mapping[str, Any], field: str) -> int:
    """The version or revision in ``field``: missing or null reads as 0, an integral double as an int.

    Raises:
        DocumentInvalidError: ``invalid-version``: neither of these nor an integer >= 0.
    """
    value = doc.get(field)
    if value is None:
        return 0
    kind = type(value)
    if kind is int or kind is Int64:
        if 0 <= value < LAST:
            return int(value)
    # Above 2**53 a double no longer counts: adding 1 leaves it as it is.
    elif kind is float and 0 <= value < EXACT_DOUBLE and value.is_integer():
        return int(value)
    raise DocumentInvalidError(
        "invalid-version",
        f"The field {field!r} must hold a whole number from 0 to 2**63 - 2, or be missing: correct the document.",
    )


def guard_filter(original: Mapping[str, Any], *, spec: Spec, guard: Guard) -> dict[str, Any]:
    """Filter of the write of one document: it matches only while the document is the one that was read.

    ``snapshot`` needs the id alone, because its transaction has compared the bytes.

    Args:
        original: The document as it was read, decoded with ``CODEC``.
        spec: Names the fields.
        guard: One that is resolved, not ``auto``.

    Raises:
        DocumentInvalidError: ``invalid-version``: a guarding field holds no number.
        InvalidMigrationError: The guard needs a field that the migration does not have.
    """
    by_id = {"_id": original["_id"]}
    if guard is Guard.SNAPSHOT:
        return by_id
    version = {spec.version_field: _as_read(original, spec.version_field)} if spec.versioned else {}
    if guard is Guard.VERSION and spec.versioned:
        return by_id | version
    if guard is Guard.REVISION and spec.revision_field is not None:
        return by_id | version | {spec.revision_field: _as_read(original, spec.revision_field)}
    raise InvalidMigrationError(
        f"The guard {guard.value!r} cannot protect a write here: use 'snapshot', 'revision' with a revision_field, "
        "or 'version' with versions.",
        guard=guard.value,
    )


def _as_read(original: Mapping[str, Any], field: str) -> Any:
    """The stored value; ``None`` matches missing and null but not a 0 that was written meanwhile."""
    read_version(original, field)
    return original.get(field)
