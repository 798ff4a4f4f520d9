"""From a document and the result of its transform to the update that makes the one into the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from migronaut.core.state import Direction, Spec
from migronaut.versioning.codec import DocumentInvalidError, encoded
from migronaut.versioning.contract import read_version
from migronaut.versioning.equality import BY_EQUALITY, same_bson

_MISSING: Any = object()
_MANY_KEYS = 1000
"""Keys that a builder remembers as usable; where keys are data there is no end of them."""


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
        gone = [key for key in original if key not in result and key not in own]
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
    return encoded({"q": where, "u": update})


def _changed(original: Mapping[str, Any], result: Mapping[str, Any], own: frozenset[str | None]) -> dict[str, Any]:
    changed = {}
    before = original.get
    for key, value in result.items():
        old = before(key, _MISSING)
        # The first lines of same_bson once more: a call for every field of every document is what costs.
        if old is value:
            continue
        kind = type(value)
        if kind is type(old) and kind in BY_EQUALITY and old == value:
            continue
        if key in own or (old is not _MISSING and same_bson(old, value)):
            continue
        changed[key] = value
    return changed
