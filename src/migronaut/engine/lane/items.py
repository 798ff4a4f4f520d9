"""From raw documents to items: each is a write to do, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import bson
from attrs import frozen
from bson.errors import BSONError

from migronaut.core.ports import Checkpoint, Store, Write
from migronaut.core.state import MAX_ERRORS, Counters, DocumentError
from migronaut.engine.work import Work
from migronaut.errors import describe
from migronaut.spec import Context
from migronaut.versioning import CODEC, DocumentInvalidError, encode_statement, guard_filter

_REFUSED = "MongoDB refused the new document: correct the migration, or the document, and retry."
_TEXTS = {
    "still-matches": "The new document matches the filter as the old one did, so it would be migrated for ever: "
    "correct the migration or its filter, and retry.",
    "too-large": "The new document is larger than MongoDB takes: make it smaller, or split it, and retry.",
}
_LENIENT = CODEC.with_options(unicode_decode_error_handler="replace")


@frozen
class Bad:
    """A document that cannot be migrated, and why; the text holds no content."""

    id: Any
    kind: str
    message: str


@frozen
class Conflicted:
    """A document that somebody else kept writing; it is stepped over."""

    id: Any


Item = Write | Bad | Conflicted


def refusal_text(kind: str) -> str:
    """What a kind of refusal means, and what to do."""
    return _TEXTS.get(kind, _REFUSED)


def checkpoint_of(bad: Sequence[Bad], store: Store) -> Checkpoint:
    """What names documents that cannot be migrated in the partition, and moves nothing."""
    if not bad:
        return Checkpoint()
    at = store.now()
    errors = tuple(DocumentError(at=at, kind=item.kind, message=item.message) for item in bad[:MAX_ERRORS])
    return Checkpoint(bad_ids=tuple(item.id for item in bad), errors=errors, counters=Counters(failed=len(bad)))


def prepare(raws: Sequence[bytes], work: Work, context: Context) -> list[Item]:
    """Decode, transform and diff a batch; one item per document, in order.

    Two decodes of the same bytes give the original and the copy that the transform may change.
    """
    if not raws:
        return []
    try:
        joined = b"".join(raws)
        originals, copies = bson.decode_all(joined, CODEC), bson.decode_all(joined, CODEC)
    except (BSONError, ValueError):
        return _one_by_one(raws, work, context)
    return _items(raws, originals, copies, work, context)


def _one_by_one(raws: Sequence[bytes], work: Work, context: Context) -> list[Item]:
    """A document that cannot be decoded must not take its neighbours down."""
    found: list[Item] = []
    for raw in raws:
        try:
            original, copy = bson.decode(raw, CODEC), bson.decode(raw, CODEC)
        except (BSONError, ValueError):
            id_ = bson.decode(raw, _LENIENT)["_id"]
            found.append(Bad(id_, "not-decodable", "The document is not valid BSON; correct it and retry."))
        else:
            found += _items([raw], [original], [copy], work, context)
    return found


def _items(
    raws: Sequence[bytes],
    originals: Sequence[dict[str, Any]],
    copies: list[dict[str, Any]],
    work: Work,
    context: Context,
) -> list[Item]:
    if work.transform is None:
        raise TypeError("this work is done by a pipeline")
    results = work.transform.call(copies, context)
    return [_item(*each, work) for each in zip(raws, originals, results, strict=True)]


def _item(raw: bytes, original: dict[str, Any], result: object, work: Work) -> Item:
    id_ = original["_id"]
    if isinstance(result, Exception):
        return Bad(id_, "transform-raised", describe(result))
    try:
        update = work.builder.build(original, result)
        statement = encode_statement(guard_filter(original, spec=work.spec, guard=work.guard), update)
    except DocumentInvalidError as error:
        return Bad(id_, error.kind, str(error))
    return Write(id=id_, before=raw, statement=statement)


def writes_of(items: Iterable[Item]) -> list[Write]:
    """Those of the items that are writes."""
    return [item for item in items if isinstance(item, Write)]
