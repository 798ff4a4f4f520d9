"""The document contract: which documents are still to do, and what a write of one looks like.

A document carries its shape in a version field and, where the application keeps one, a revision
field that every write counts up. A missing or null field reads as 0. Values are compared as BSON,
not as Python: what the transform left alone keeps its stored type to the byte.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from math import copysign, isnan
from typing import Any, Literal
from uuid import UUID

import bson
from attrs import field, frozen
from bson.binary import Binary, UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from migronaut.core.state import Direction, Guard, Spec
from migronaut.errors import InvalidMigrationError

CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict,
    tz_aware=False,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
"""How documents are read and written, whatever the client of the user is set to."""

InvalidKind = Literal["invalid-version", "not-a-mapping", "id-changed", "bad-key", "not-encodable", "unchanged"]

_MISSING: Any = object()
_EXACT_DOUBLE = 2**53
_LAST = 2**63 - 1
"""The largest whole number of BSON: it cannot be counted up."""
_PLAIN = 2
"""The last version of the marshal format without references, which tell equal values apart."""
_MANY_KEYS = 1000
"""Keys that a builder remembers as usable; where keys are data there is no end of them."""
_BY_EQUALITY = frozenset({str, int, bool, type(None), ObjectId, bytes, UUID, Int64, Decimal128, Binary, Timestamp})
"""Types whose values are the same BSON exactly when both are of the type and equal in Python."""


class DocumentInvalidError(Exception):
    """One document cannot be migrated; the others can. Its message holds no id and no content.

    Args:
        kind: What is wrong, a stable word for machines.
        message: One sentence: what is wrong and what to do.
    """

    def __init__(self, kind: InvalidKind, message: str) -> None:
        super().__init__(message)
        self.kind: InvalidKind = kind
        self.message = message


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
        if 0 <= value < _LAST:
            return int(value)
    # Above 2**53 a double no longer counts: adding 1 leaves it as it is.
    elif kind is float and 0 <= value < _EXACT_DOUBLE and value.is_integer():
        return int(value)
    raise DocumentInvalidError(
        "invalid-version",
        f"The field {field!r} must hold a whole number from 0 to 2**63 - 2, or be missing: correct the document.",
    )


def same_bson(a: object, b: object) -> bool:
    """Whether two values are the same BSON: type, bytes and key order; every NaN is the same scalar.

    Raises:
        DocumentInvalidError: ``not-encodable``: a value that had to be encoded is no BSON.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is type(b):
        if kind in _BY_EQUALITY:
            return a == b
        if kind is float:
            return _same_double(a, b)  # type: ignore[arg-type]
        # Only naive ones: with a time zone, Python may call two instants equal in a repeated hour.
        if kind is datetime and a.tzinfo is None and b.tzinfo is None and a == b:  # type: ignore[attr-defined]
            return True
        if (kind is dict or kind is list) and _same_plain(a, b):
            return True
    return _encoded({"": a}) == _encoded({"": b})


def _same_plain(a: Any, b: Any) -> bool:
    """True for containers of plain values that are the same in type, order and bits; False says nothing.

    Marshalling tells what BSON tells apart and Python does not (1, 1.0 and True; the order of keys), in a third of the
    time of two encodings; Python tells the subtypes of ``Binary``, which marshal takes for bytes. Other classes
    and subclasses it refuses: what contains them is encoded.
    """
    try:
        return a == b and marshal.dumps(a, _PLAIN) == marshal.dumps(b, _PLAIN)
    except ValueError:
        return False


def _same_double(a: float, b: float) -> bool:
    if a == b:
        return a != 0 or copysign(1, a) == copysign(1, b)
    return isnan(a) and isnan(b)


def _encoded(doc: Mapping[str, Any]) -> bytes:
    try:
        return bson.encode(doc, codec_options=CODEC)
    # The cause quotes the value, so it is cut off.
    except (BSONError, OverflowError, RecursionError, TypeError, ValueError):
        raise DocumentInvalidError(
            "not-encodable", "The result holds a value that BSON cannot store: return plain BSON types."
        ) from None


@frozen(kw_only=True)
class UpdateBuilder:
    """Turns a document as read and the result of its transform into an update; built once per lane.

    Args:
        version_field: The field that gets ``target``; ``None`` when documents go by predicate.
        target: Version of the new shape; 0 removes the field.
        revision_field: Counted up by every update; ``None`` when no revision is kept.
    """

    version_field: str | None = None
    target: int = 0
    revision_field: str | None = None
    _own: frozenset[str | None] = field(init=False, repr=False, eq=False)
    _usable: set[str] = field(factory=set, init=False, repr=False, eq=False)

    @_own.default
    def _fields_of_ours(self) -> frozenset[str | None]:
        return frozenset({self.version_field, self.revision_field}) - {None}

    @classmethod
    def of(cls, spec: Spec, direction: Direction) -> UpdateBuilder:
        """The builder for one migration in one direction."""
        target = spec.to_version if direction is Direction.FORWARD else spec.from_version
        return cls(
            version_field=spec.version_field if spec.versioned else None,
            target=target or 0,
            revision_field=spec.revision_field,
        )

    def build(self, original: Mapping[str, Any], result: object) -> dict[str, dict[str, Any]]:
        """The update that makes the stored ``original`` into ``result``.

        Only top-level fields that differ are named. What the result says about the version and the
        revision is ignored: these two are ours.

        Args:
            original: The document as it was read, decoded with ``CODEC``.
            result: What the transform returned for its copy.

        Returns:
            ``$set``, ``$unset`` and ``$inc``, those that are not empty.

        Raises:
            DocumentInvalidError: The result cannot be written; its ``kind`` says why.
        """
        if type(result) is not dict and not isinstance(result, Mapping):
            raise DocumentInvalidError("not-a-mapping", "The transform must return the whole new document.")
        own = self._own
        changed = _changed(original, result, own)
        gone = (
            []
            if original.keys() <= result.keys()
            else [key for key in original if key not in result and key not in own]
        )
        if "_id" in changed or "_id" not in result:
            raise DocumentInvalidError("id-changed", "The transform must leave _id as it is.")
        self._check_keys(changed, gone)
        if self.version_field is None and not changed and not gone:
            raise DocumentInvalidError(
                "unchanged", "The transform changed nothing, so the document would match for ever: narrow the filter."
            )
        return self._operators(original, changed, gone)

    def _check_keys(self, changed: Mapping[Any, Any], gone: list[str]) -> None:
        """Refuse what an update would read as a path or an operator; untouched odd keys never come here."""
        usable = self._usable
        for keys in (changed, gone):
            for key in keys:
                if key in usable:
                    continue
                if not isinstance(key, str) or not key or key[0] == "$" or "." in key or "\0" in key:
                    raise DocumentInvalidError(
                        "bad-key",
                        "A top-level key that was added, changed or removed is empty, starts with $, holds a dot or "
                        "NUL, or is no string: rename it.",
                    )
                if len(usable) < _MANY_KEYS:
                    usable.add(key)

    def _operators(self, original: Mapping[str, Any], to_set: dict[str, Any], gone: list[str]) -> dict[str, Any]:
        update: dict[str, Any] = {}
        if self.version_field is not None:
            read_version(original, self.version_field)
            if self.target:
                to_set[self.version_field] = self.target
            else:
                gone.append(self.version_field)
        if self.revision_field is not None:
            read_version(original, self.revision_field)
            if original.get(self.revision_field, 0) is None:
                to_set[self.revision_field] = 1  # the server refuses $inc on null
            else:
                update["$inc"] = {self.revision_field: 1}
        if to_set:
            update["$set"] = to_set
        if gone:
            update["$unset"] = dict.fromkeys(gone, "")
        return update


def encode_statement(where: Mapping[str, Any], update: Mapping[str, Any]) -> bytes:
    """One statement of an update command, ``{"q": where, "u": update}``, as BSON.

    Raises:
        DocumentInvalidError: ``not-encodable``: the update holds a value that is no BSON.
    """
    return _encoded({"q": where, "u": update})


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
    whole = {"$and": [{"$in": [kind, ["int", "long"]]}, {"$gte": [path, 0]}, {"$lt": [path, Int64(_LAST)]}]}
    double = [{"$eq": [kind, "double"]}, {"$gte": [path, 0]}, {"$lt": [path, float(_EXACT_DOUBLE)]}]
    integral = {"$and": [*double, {"$eq": [path, {"$trunc": path}]}]}
    return {"$or": [{"$in": [kind, ["missing", "null"]]}, whole, integral]}


def _only_if(condition: dict[str, Any], value: Any, path: str) -> dict[str, Any]:
    """An expression that fails where the condition does not hold: the name of a type is no number."""
    return {"$cond": [condition, value, {"$toInt": {"$type": path}}]}


def _changed(original: Mapping[str, Any], result: Mapping[str, Any], own: frozenset[str | None]) -> dict[str, Any]:
    changed = {}
    before = original.get
    for key, value in result.items():
        old = before(key, _MISSING)
        # The first lines of same_bson once more: a call for every field of every document is what costs.
        if old is value:
            continue
        kind = type(value)
        if kind is type(old) and kind in _BY_EQUALITY and old == value:
            continue
        if key in own or (old is not _MISSING and same_bson(old, value)):
            continue
        changed[key] = value
    return changed


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
