"""One batch, the single write path: read, transform and diff (or read the ids for the server), then commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from migronaut.core.ports import Documents
from migronaut.core.state import Cursor, Partition
from migronaut.engine.lane.ahead import Ahead
from migronaut.engine.lane.committing import BatchResult, Committer, Committing
from migronaut.engine.lane.items import Item, id_of, named, prepare
from migronaut.spec import Context


@frozen(kw_only=True)
class Prepared:
    """A batch that is ready to be written; ``end`` when nothing follows in the scope."""

    items: Sequence[Item]
    end: bool


@frozen(kw_only=True)
class Lane:
    """What every batch of one lane works with."""

    documents: Documents
    context: Context
    ahead: Ahead
    committing: Committing = field()

    def run(self, partition: Partition, after: Cursor | None, *, check_left: bool) -> BatchResult:
        """Read one batch and bring it to its end.

        Args:
            check_left: Also make sure that results no longer match (the first batch of a pass by predicate).

        Raises:
            LeaseLostError: Another lane holds the partition now; nothing more was written.
            UnavailableError: No primary; the batch may be run again.
        """
        ready = self.ahead.take(after, lambda: self._prepare(partition, after))
        following = Cursor(last_id=id_of(ready.items[-1])) if ready.items and not ready.end else None
        items = self.committing.strategy.foresee(ready.items) if check_left else ready.items
        batch = Committer(self.committing, partition, after, end=ready.end, check_left=check_left)
        self.ahead.meanwhile(
            lambda under_way: batch.commit_all(items, under_way), following, lambda: self._prepare(partition, following)
        )
        return batch.finish(self._read_again)

    def _prepare(self, partition: Partition, after: Cursor | None) -> Prepared:
        """Read the next documents of a partition and transform them; of those that the server rewrites, the ids."""
        work, limit = self.committing.work, self.committing.strategy.limit
        read = self.documents.read_ids if work.stages else self.documents.read
        batch = read(work.match, partition.scope, after=after, limit=limit, without=work.without)
        if work.stages:
            return Prepared(items=named(batch.documents), end=batch.end)
        return Prepared(items=prepare(batch.documents, work, self.context), end=batch.end)

    def _read_again(self, ids: Sequence[Any]) -> tuple[int, Sequence[Item]]:
        work = self.committing.work
        raws = self.documents.fetch(ids, match=work.match)
        return len(raws), prepare(raws, work, self.context)
