"""How the writes of a chunk and its checkpoint are committed: one strategy a guard.

``snapshot`` compares bytes and commits writes and checkpoint in one transaction. The field guards
(``revision``, ``version``) write first and checkpoint second; a crash between the two replays the
chunk, which then matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import bson
from attrs import frozen

from migronaut.core.ports import Checkpoint, Documents, Store, Write
from migronaut.core.state import Guard, Partition
from migronaut.engine.work import Work
from migronaut.versioning import CODEC, DocumentInvalidError, read_version


@frozen(kw_only=True)
class Fates:
    """What became of the writes of one commit; those not named were written.

    Args:
        left_out: No longer the document that was transformed; to be read again.
        skipped: Gone, or moved to the new shape by somebody else.
        refused: By index, why the server refused the result (guards that write without a transaction).
    """

    left_out: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()
    refused: Mapping[int, str] = {}


CheckpointOf = Callable[[Fates], Checkpoint]


class GuardStrategy(Protocol):
    """Commits one chunk."""

    def commit(
        self, partition: Partition, writes: Sequence[Write], *, checkpoint: CheckpointOf, check_left: bool
    ) -> Fates:
        """Write, checkpoint, and say what became of each write."""


@frozen(kw_only=True)
class SnapshotGuard:
    """One short transaction; nothing of a failed commit remains."""

    work: Work
    documents: Documents
    store: Store

    def commit(
        self, partition: Partition, writes: Sequence[Write], *, checkpoint: CheckpointOf, check_left: bool
    ) -> Fates:
        """Compare bytes, update, checkpoint and commit together."""
        if not writes:
            self.store.checkpoint(partition, checkpoint(Fates()))
            return Fates()
        left_out = self.documents.write_same(
            partition,
            writes,
            checkpoint=lambda changed: checkpoint(Fates(left_out=changed)),
            must_leave=self.work.must_leave if check_left else None,
        )
        return Fates(left_out=left_out)


@frozen(kw_only=True)
class FieldGuard:
    """Each write is filtered by the version and revision that were read."""

    work: Work
    documents: Documents
    store: Store

    def commit(
        self, partition: Partition, writes: Sequence[Write], *, checkpoint: CheckpointOf, check_left: bool
    ) -> Fates:
        """Write, find out what became of the rest, then checkpoint."""
        fates = self._write(writes, check_left=check_left) if writes else Fates()
        self.store.checkpoint(partition, checkpoint(fates))
        return fates

    def _write(self, writes: Sequence[Write], *, check_left: bool) -> Fates:
        result = self.documents.write_guarded(writes, write_concern=self.work.spec.write_concern)
        refused = {index: f"refused-{code}" for index, code in result.refused.items()}
        if result.matched + len(refused) < len(writes):
            return self._resolve(writes, refused)
        if check_left and self.work.must_leave is not None:
            refused |= self._still_matching(writes, self.work.must_leave)
        return Fates(refused=refused)

    def _resolve(self, writes: Sequence[Write], refused: Mapping[int, str]) -> Fates:
        """Re-read the chunk: who is still old, who is gone, whose write was ours with its answer lost."""
        now = self._now(writes, None)
        old = self._now(writes, self.work.match)
        left_out, skipped = set(), set()
        for index, write in enumerate(writes):
            key = _key(write.id)
            if index in refused:
                continue
            if key in old:
                left_out.add(index)
            elif key not in now or not self._ours(write, now[key]):
                skipped.add(index)
        return Fates(left_out=frozenset(left_out), skipped=frozenset(skipped), refused=refused)

    def _still_matching(self, writes: Sequence[Write], must_leave: Mapping[str, Any]) -> dict[int, str]:
        """Writes of ours after which the document matches as before: it would match for ever."""
        still = self._now(writes, must_leave)
        return {
            index: "still-matches"
            for index, write in enumerate(writes)
            if (raw := still.get(_key(write.id))) is not None and self._ours(write, raw)
        }

    def _now(self, writes: Sequence[Write], match: Mapping[str, Any] | None) -> dict[bytes, bytes]:
        raws = self.documents.fetch([write.id for write in writes], match=match)
        return {_key(bson.decode(raw, CODEC)["_id"]): raw for raw in raws}

    def _ours(self, write: Write, raw: bytes) -> bool:
        """The stored document is one revision on from the one that was transformed."""
        field = self.work.spec.revision_field
        if field is None:
            return True
        before, now = bson.decode(write.before, CODEC), bson.decode(raw, CODEC)
        try:
            return read_version(now, field) == read_version(before, field) + 1
        except DocumentInvalidError:
            return False  # the application wrote something that is no revision


def _key(id_: Any) -> bytes:
    return bson.encode({"_id": id_}, codec_options=CODEC)


def strategy_of(work: Work, documents: Documents, store: Store) -> GuardStrategy:
    """The strategy for the guard of a migration."""
    kind = SnapshotGuard if work.guard is Guard.SNAPSHOT else FieldGuard
    return kind(work=work, documents=documents, store=store)
