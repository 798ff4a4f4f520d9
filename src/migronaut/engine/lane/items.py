"""From raw documents to items: each is a write to do, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
from attrs import evolve, frozen
from bson.errors import BSONError

from migronaut.core.ports import Checkpoint, Store, Write, WriteRefusedError
from migronaut.core.state import MAX_ERRORS, NOT_REMEMBERED, Counters, DocumentError
from migronaut.engine.failing import remembered
from migronaut.engine.stopping import LeftToStopError
from migronaut.engine.work import Work
from migronaut.errors import describe
from migronaut.spec import Context
from migronaut.spec.raising import is_own
from migronaut.versioning import (
    CODEC,
    DocumentInvalidError,
    IdInvalidError,
    check_faithful,
    check_ids,
    encode_statement,
    guard_filter,
    id_of_raw,
)

_NOT_REMEMBERED = "The ids of the documents that failed are too large to be remembered: they cannot be left out."
_TEXTS = {
    "still-matches": "The new document matches the filter as the old one did, so it would be migrated for ever: "
    "correct the migration or its filter, and retry.",
    "too-large": "The new document is larger than MongoDB takes: make it smaller, or split it, and retry.",
}


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


Pending = Write | bytes
"""What is still to be written: a write, or the raw id of a document that the server rewrites itself."""
Item = Pending | Bad | Conflicted


def id_of(item: Item) -> Any:
    """The ``_id`` of an item, decoded."""
    return bson.decode(item, CODEC)["_id"] if isinstance(item, bytes) else item.id


def named(raws: Sequence[bytes]) -> Sequence[Item]:
    """Raw ids that the server is to rewrite by, as items.

    Raises:
        IdInvalidError: One of them does not name its document.
    """
    check_ids(raws)
    return raws


@frozen(kw_only=True)
class Chunk:
    """Neighbouring items that are committed together.

    Args:
        items: In ``_id`` order.
        whole: The batch as it was read, which may be told to the server as a range; a part of it goes by its ids.
        conflicts: How often it met a conflict as it is.
    """

    items: Sequence[Item]
    whole: bool = False
    conflicts: int = 0

    def pending(self) -> list[Pending]:
        """Those that are still to be written."""
        return [item for item in self.items if not isinstance(item, Bad | Conflicted)]

    def bad(self) -> list[Bad]:
        """Those that cannot be migrated."""
        return [item for item in self.items if isinstance(item, Bad)]

    def halves(self) -> list[Chunk]:
        """Its first and its second half, those that hold anything, each with a fresh count of conflicts."""
        middle = len(self.items) // 2
        return [Chunk(items=half) for half in (self.items[:middle], self.items[middle:]) if half]

    def replacing(self, item: Item, by: Item) -> Chunk:
        """The same with one document in another state, and a fresh count of conflicts."""
        return evolve(self, items=[by if each is item else each for each in self.items], conflicts=0)

    def without_done(self, left: Sequence[Pending]) -> Chunk:
        """The same with no other pending items than ``left``."""
        kept = set(left)
        return evolve(self, items=[each for each in self.items if isinstance(each, Bad | Conflicted) or each in kept])


def refused(id_: Any, why: WriteRefusedError) -> Bad:
    """A document that the server refuses: what that means, and what to do."""
    kind = f"refused-{why.code}" if why.kind == "refused" else why.kind
    because = f" because of {why.by}" if why.by else ""
    told = f"MongoDB refused the new document{because}: correct the migration, or the document, and retry."
    return Bad(id_, kind, _TEXTS.get(kind, told))


def checkpoint_of(bad: Sequence[Bad], store: Store) -> Checkpoint:
    """What names documents that cannot be migrated in the partition, and moves nothing."""
    if not bad:
        return Checkpoint()
    at = store.now()
    errors = [DocumentError(at=at, kind=item.kind, message=item.message) for item in bad[:MAX_ERRORS]]
    ids = remembered([item.id for item in bad])
    if len(ids) < len(bad):
        errors = [*errors[: MAX_ERRORS - 1], DocumentError(at=at, kind=NOT_REMEMBERED, message=_NOT_REMEMBERED)]
    return Checkpoint(bad_ids=tuple(ids), errors=tuple(errors), counters=Counters(failed=len(bad)))


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
            found.append(Bad(id_of_raw(raw), "not-decodable", "The document is not valid BSON; correct it and retry."))
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
    try:
        results = work.transform.call(copies, context)
    except Exception as error:
        if context.stop.is_set():
            raise LeftToStopError from error
        work.on_raise(error)
        raise
    raised = [result for result in results if isinstance(result, Exception)]
    if raised and context.stop.is_set():
        raise LeftToStopError
    for each in raised:
        work.on_raise(each)
    return [_item(*given, work) for given in zip(raws, originals, results, strict=True)]


def _item(raw: bytes, original: dict[str, Any], result: object, work: Work) -> Item:
    if isinstance(result, Exception):
        return Bad(id_of_raw(raw), "transform-raised", describe(result))
    try:
        update = work.builder.build(original, result)
        check_faithful(raw, original, update)
        statement = encode_statement(guard_filter(original, spec=work.spec, guard=work.guard), update)
    except DocumentInvalidError as error:
        return Bad(id_of_raw(raw), error.kind, str(error))
    except IdInvalidError:
        raise
    except BaseException as error:
        # A result may be of any class, whose methods raise what they like.
        if not is_own(error):
            raise
        what = f"The result cannot be read ({describe(error)}): return plain BSON types."
        return Bad(id_of_raw(raw), "not-encodable", what)
    return Write(id=original["_id"], before=raw, statement=statement)
