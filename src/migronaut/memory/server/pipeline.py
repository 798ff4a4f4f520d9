"""A small evaluator of MongoDB's update pipelines on the stored bytes.

What it does not know, or what MongoDB refuses to parse, it refuses when a pipeline is compiled; it never guesses.
Source of the semantics: MongoDB manual, "Updates with Aggregation Pipeline", and MongoDB 6.0 itself, with which the
project's tests compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.expressions import ROOT, Expression, compile_expression, is_operator, path_parts
from migronaut.memory.server.projection import Node
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import (
    NUMBERS,
    Kind,
    Value,
    characters,
    element,
    encoded,
    fields,
    is_true,
    items,
    key,
    present,
    stored_document,
)
from migronaut.versioning import CODEC, document

Stage = Callable[[Value], Value]
_NO_DOCUMENT, _ID_TYPE, _IMMUTABLE = 40228, 53, 66
_ID = b"_id"
_NO_ID = frozenset({Kind.ARRAY, Kind.REGEX, Kind.UNDEFINED})


def compile_pipeline(stages: Sequence[Mapping[str, Any]]) -> Callable[[bytes], bytes]:
    """Make a function from a stored document to the document afterwards (both BSON) out of an update pipeline.

    The function raises ``WriteRefusedError`` as the server would refuse the update of that document, and
    ``QueryUnsupportedError`` for values that are not supported: arithmetic with dates or decimals, deprecated types.

    Args:
        stages: ``$set``, ``$addFields``, ``$unset``, ``$project``, ``$replaceWith``, ``$replaceRoot``.

    Raises:
        QueryUnsupportedError: A stage, an operator or a form that is not supported, or that MongoDB refuses.
    """
    given = stored_document(bson.encode({"": list(stages)}, codec_options=CODEC))
    compiled = [_stage(stage) for stage in items(fields(given)[b""])]
    if not compiled:
        raise QueryUnsupportedError("a pipeline without stages")

    def apply(before: bytes) -> bytes:
        """Run all stages over one stored document."""
        value = stored_document(before)
        for stage in compiled:
            value = stage(value)
        return _written(before, present(value))

    return apply


def _written(before: bytes, after: dict[bytes, Value]) -> bytes:
    """The document that the server stores: the id comes first, and stays whatever the pipeline did not keep."""
    own = fields(stored_document(before))[_ID]
    new = after.pop(_ID, own)
    if new.kind in _NO_ID:
        raise WriteRefusedError(_ID_TYPE)
    if key(new) != key(own):
        raise WriteRefusedError(_IMMUTABLE)
    return document(element(_ID, new), *(element(name, value) for name, value in after.items()))


def _stage(stage: Value) -> Stage:
    if stage.kind != Kind.OBJECT or len(fields(stage)) != 1:
        raise QueryUnsupportedError("a stage that is no document with one field")
    ((name, given),) = fields(stage).items()
    compiler = _STAGES.get(name)
    if compiler is None:
        raise QueryUnsupportedError(f"the stage {name.decode('utf-8', 'replace')}")
    return compiler(given)


def _set(given: Value) -> Stage:
    node = Node()
    for path, leaf in _leaves(given, "$set"):
        node.compute(path, compile_expression(leaf))
    return lambda value: node.computed(value, value) if node.has_computed else value


def _unset(given: Value) -> Stage:
    paths = items(given) if given.kind == Kind.ARRAY else (given,)
    if not paths or any(path.kind != Kind.STRING for path in paths):
        raise QueryUnsupportedError("$unset without a path or a list of paths")
    node = Node()
    for path in paths:
        node.name(path_parts(characters(path)))
    return node.excluded


def _project(given: Value) -> Stage:
    leaves = _leaves(given, "$project")
    # The id alone may go another way than the other fields.
    id_flag = next((is_true(leaf) for path, leaf in leaves if path == (_ID,) and _is_flag(leaf)), None)
    others = [(path, leaf) for path, leaf in leaves if not (path == (_ID,) and _is_flag(leaf))]
    ways = {not _is_flag(leaf) or is_true(leaf) for _, leaf in others} or {id_flag is True}
    if not leaves or len(ways) > 1:
        raise QueryUnsupportedError("$project that includes and excludes, or that is empty")
    below_id = any(path[0] == _ID for path, _ in others)
    if id_flag is not None and below_id:
        raise QueryUnsupportedError("paths that overlap")
    (includes,) = ways
    node = Node()
    if id_flag is includes or (includes and id_flag is None and not below_id):
        node.name((_ID,))
    for path, leaf in others:
        if _is_flag(leaf):
            node.name(path)
        else:
            node.compute(path, compile_expression(leaf))
    return _including(node) if includes else node.excluded


def _is_flag(leaf: Value) -> bool:
    return leaf.kind in NUMBERS or leaf.kind == Kind.BOOL


def _including(node: Node) -> Stage:
    def include(value: Value) -> Value:
        """Keep what is named, in the order of the document."""
        kept = node.included(value)
        if node.has_computed:
            return node.computed(kept, value)
        # The server copies bytes where it can, and then remembers no places.
        return stored_document(encoded(kept)) if isinstance(value.data, bytes) else kept

    return include


def _leaves(given: Value, stage: str) -> list[tuple[tuple[bytes, ...], Value]]:
    """The paths of a specification with what is said of them."""
    if given.kind != Kind.OBJECT:
        raise QueryUnsupportedError(f"{stage} without a document")
    found: list[tuple[tuple[bytes, ...], Value]] = []
    for name, value in fields(given).items():
        found += _below(path_parts(name), value)
    return found


def _below(path: tuple[bytes, ...], value: Value) -> list[tuple[tuple[bytes, ...], Value]]:
    inner = fields(value) if value.kind == Kind.OBJECT else None
    if inner is None or (inner and is_operator(inner)):
        return [(path, value)]
    if not inner or any(b"." in name for name in inner):
        raise QueryUnsupportedError("an empty document, or one with paths, in place of a field")
    return [leaf for name, part in inner.items() for leaf in _below((*path, *path_parts(name)), part)]


def _replace_with(given: Value) -> Stage:
    return _replacing(compile_expression(given))


def _replace_root(given: Value) -> Stage:
    inner = fields(given) if given.kind == Kind.OBJECT else {}
    if inner.keys() != {b"newRoot"}:
        raise QueryUnsupportedError("$replaceRoot without newRoot")
    return _replacing(compile_expression(inner[b"newRoot"]))


def _replacing(expression: Expression) -> Stage:
    def replace(value: Value) -> Value:
        """Put a sub-document in the place of the whole."""
        found = expression({ROOT: value})
        if found.kind != Kind.OBJECT:
            raise WriteRefusedError(_NO_DOCUMENT)
        return found

    return replace


_STAGES: Mapping[bytes, Callable[[Value], Stage]] = {
    b"$set": _set,
    b"$addFields": _set,
    b"$unset": _unset,
    b"$project": _project,
    b"$replaceWith": _replace_with,
    b"$replaceRoot": _replace_root,
}
