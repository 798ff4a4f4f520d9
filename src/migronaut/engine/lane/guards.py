"""How a chunk and its checkpoint are committed: one strategy a guard (those for ranges are in ``ranges``).

``snapshot`` compares bytes and commits writes and checkpoint in one transaction. The field guards
(``revision``, ``version``) write first and checkpoint second; a crash between the two replays the
chunk, which then matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import bson
from attrs import frozen

from migronaut.core.ports import Checkpoint, Documents, Store, UnderWay, Write, WriteRefusedError
from migronaut.core.state import Counters, Cursor, Partition
from migronaut.engine.lane.items import Chunk, Item, Pending
from migronaut.engine.work import Work
from migronaut.versioning import CODEC, DocumentInvalidError, fields_of_raw, id_of_raw, read_version

STILL_MATCHES = WriteRefusedError(0, kind="still-matches")
"""Why a document is left out that would match for ever."""


@frozen(kw_only=True)
class Fates:
    """What became of a chunk in one commit; what is not named was written.

    Args:
        left_out: By index, what is no longer the document that was transformed; to be read again.
        skipped: How many were gone, or moved to the new shape by somebody else.
        came: How many were written too that have come since the batch was read (pipelines).
        refused: By index, why the server refused the result (guards that write without a transaction).
    """

    left_out: frozenset[int] = frozenset()
    skipped: int = 0
    came: int = 0
    refused: Mapping[int, WriteRefusedError] = {}


CheckpointOf = Callable[[Fates], Checkpoint]


@frozen(kw_only=True)
class Attempt:
    """One chunk that is to be committed.

    Args:
        after: Where the partition is.
        checkpoint: From what became of the chunk to the checkpoint that goes with it.
        under_way: Called when what is left is to wait for the server.
        check_left: Also make sure that results no longer match.
    """

    partition: Partition
    chunk: Chunk
    after: Cursor | None
    checkpoint: CheckpointOf
    under_way: UnderWay
    check_left: bool


class GuardStrategy(Protocol):
    """How one chunk is committed, and its checkpoint with it."""

    @property
    def halve_after(self) -> int:
        """Conflicts in a row after which a chunk is halved."""

    @property
    def limit(self) -> int:
        """How many documents the next batch takes."""

    def foresee(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items of the first batch of a pass by predicate, with those known to match for ever as ``Bad`` ones."""

    def commit(self, attempt: Attempt) -> Fates:
        """Write what is pending, checkpoint, and say what became of it."""

    def undone(self, pending: Sequence[Pending]) -> tuple[Sequence[Pending], Counters]:
        """After a refused commit: what of it is still to be written, and the counters of the rest."""


@frozen(kw_only=True)
class _Writing:
    """What the strategies for writes have in common."""

    work: Work
    documents: Documents
    store: Store
    halve_after: int = 3

    @property
    def limit(self) -> int:
        """As the migration says."""
        return self.work.spec.batch_size

    def foresee(self, items: Sequence[Item]) -> Sequence[Item]:
        """All of them: the commit looks at what was written."""
        return items

    def undone(self, pending: Sequence[Pending]) -> tuple[Sequence[Pending], Counters]:
        """All of it: what was written all the same no longer matches when it is tried again."""
        return pending, Counters()


@frozen(kw_only=True)
class SnapshotGuard(_Writing):
    """One short transaction; nothing of a failed commit remains."""

    def commit(self, attempt: Attempt) -> Fates:
        """Compare bytes, update, checkpoint and commit together."""
        writes = _writes(attempt.chunk)
        if not writes:
            self.store.checkpoint(attempt.partition, attempt.checkpoint(Fates()))
            return Fates()
        left_out = self.documents.write_same(
            attempt.partition,
            writes,
            checkpoint=lambda changed: attempt.checkpoint(Fates(left_out=changed)),
            under_way=attempt.under_way,
            must_leave=self.work.must_leave if attempt.check_left else None,
        )
        return Fates(left_out=left_out)


@frozen(kw_only=True)
class FieldGuard(_Writing):
    """Each write is filtered by the version and revision that were read."""

    def commit(self, attempt: Attempt) -> Fates:
        """Write, find out what became of the rest, then checkpoint."""
        writes = _writes(attempt.chunk)
        attempt.under_way()
        fates = self._write(writes, check_left=attempt.check_left) if writes else Fates()
        self.store.checkpoint(attempt.partition, attempt.checkpoint(fates))
        return fates

    def _write(self, writes: Sequence[Write], *, check_left: bool) -> Fates:
        result = self.documents.write_guarded(writes, write_concern=self.work.spec.write_concern)
        if result.matched + len(result.refused) < len(writes):
            return self._resolve(writes, result.refused)
        if not check_left or self.work.must_leave is None:
            return Fates(refused=result.refused)
        return Fates(refused={**result.refused, **self._still_matching(writes, self.work.must_leave)})

    def _resolve(self, writes: Sequence[Write], refused: Mapping[int, WriteRefusedError]) -> Fates:
        """Re-read the chunk: who is still old, who is gone, whose write was ours with its answer lost."""
        now = self._now(writes, None)
        old = self._now(writes, self.work.match)
        left_out, skipped = set(), 0
        for index, write in enumerate(writes):
            key = _key(write.id)
            if index in refused:
                continue
            if key in old:
                left_out.add(index)
            elif key not in now or not self._ours(write, now[key]):
                skipped += 1
        return Fates(left_out=frozenset(left_out), skipped=skipped, refused=refused)

    def _still_matching(self, writes: Sequence[Write], must_leave: Mapping[str, Any]) -> dict[int, WriteRefusedError]:
        """Writes of ours after which the document matches as before: it would match for ever."""
        still = self._now(writes, must_leave)
        return {
            index: STILL_MATCHES
            for index, write in enumerate(writes)
            if (raw := still.get(_key(write.id))) is not None and self._ours(write, raw)
        }

    def _now(self, writes: Sequence[Write], match: Mapping[str, Any] | None) -> dict[bytes, bytes]:
        raws = self.documents.fetch([write.id for write in writes], match=match)
        return {_key(id_of_raw(raw)): raw for raw in raws}

    def _ours(self, write: Write, raw: bytes) -> bool:
        """The stored document is one revision on from the one that was transformed."""
        field = self.work.spec.revision_field
        if field is None:
            return True
        before, now = fields_of_raw(write.before, field), fields_of_raw(raw, field)
        try:
            return read_version(now, field) == read_version(before, field) + 1
        except DocumentInvalidError:
            return False  # the application wrote something that is no revision


def _key(id_: Any) -> bytes:
    return bson.encode({"_id": id_}, codec_options=CODEC)


def _writes(chunk: Chunk) -> list[Write]:
    return [item for item in chunk.items if isinstance(item, Write)]
