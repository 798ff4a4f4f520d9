"""Updates on the stored bytes: a field that no operator names keeps them exactly."""

from __future__ import annotations

from typing import Any

import bson
from bson.int64 import Int64

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.versioning import CODEC, document, elements

_OPERATORS = frozenset({b"$set", b"$unset", b"$inc"})
_BAD_VALUE, _TYPE_MISMATCH, _IMMUTABLE = 2, 14, 66


def by_name(raw: bytes) -> dict[bytes, bytes]:
    """The top-level elements of a document by name; of two with one name, the last."""
    return dict(elements(raw))


def inner(element: bytes, name: bytes) -> bytes:
    """The sub-document that an element holds."""
    return element[len(name) + 2 :]


def updated(before: bytes, update: bytes) -> bytes:
    """A stored document after an update: ``$set``, ``$unset`` and ``$inc`` of top-level fields, or a replacement.

    Raises:
        WriteRefusedError: As the server would refuse it.
        QueryUnsupportedError: Another operator, or a path.
    """
    operators = by_name(update)
    old = by_name(before)
    if not any(name.startswith(b"$") for name in operators):
        return _with_id(old, [part for name, part in operators.items() if name != b"_id"], operators.get(b"_id"))
    kept = dict(old)
    fresh: dict[bytes, bytes] = {}
    for operator, part in operators.items():
        _check_operator(operator)
        for name, change in by_name(inner(part, operator)).items():
            if b"." in name:
                raise QueryUnsupportedError("updates of a path", "write whole top-level fields")
            if operator == b"$unset":
                kept.pop(name, None)
                continue
            result = _increased(old.get(name), change, name) if operator == b"$inc" else change
            (kept if name in kept else fresh)[name] = result
    parts = [part for name, part in kept.items() if name != b"_id"]
    # The server adds new fields in the order of their names.
    added = [fresh[name] for name in sorted(fresh, key=_name_order) if name != b"_id"]
    return _with_id(old, parts + added, kept.get(b"_id"))


def _check_operator(operator: bytes) -> None:
    if operator not in _OPERATORS:
        raise QueryUnsupportedError(operator.decode("utf-8", "replace"), "use $set, $unset and $inc")


def _with_id(old: dict[bytes, bytes], parts: list[bytes], new_id: bytes | None) -> bytes:
    own = old[b"_id"]
    if new_id is not None and new_id != own:
        raise WriteRefusedError(_IMMUTABLE)
    return document(own, *parts)


def _name_order(name: bytes) -> tuple[Any, ...]:
    return (0, int(name), name) if name.isdigit() else (1, 0, name)


def _increased(old: bytes | None, change: bytes, name: bytes) -> bytes:
    if old is None:
        return change
    stored, step = _number(old), _number(change)
    total = stored + step
    if isinstance(total, float):
        return _element(name, total)
    if not -(2**63) <= total < 2**63:
        raise WriteRefusedError(_BAD_VALUE)
    wide = isinstance(stored, Int64) or isinstance(step, Int64)
    return _element(name, Int64(total) if wide else int(total))


def _number(element: bytes) -> int | float:
    (value,) = bson.decode(document(element), codec_options=CODEC).values()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WriteRefusedError(_TYPE_MISMATCH)
    return value


def _element(name: bytes, value: Any) -> bytes:
    return bson.encode({name.decode(): value})[4:-1]
