"""Chunks that the server rewrites itself: a range of ids, one update by pipeline.

Each document is changed in one step on the server, from the old shape to the new one, so no write of
an application can come between. Where transactions work, the update and its checkpoint are one: fenced by the lease,
counted exactly, undone together. Elsewhere, or by choice (``guard="version"``), the update goes by itself and the
checkpoint follows. An update stops at the first document that the server refuses, and does not say at which: the
committer halves the range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve, field, frozen

from migronaut.core.ports import (
    Clock,
    Documents,
    Rewriting,
    Store,
    WriteConflictError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.core.state import Counters, Partition
from migronaut.engine.lane.guards import STILL_MATCHES, Attempt, Fates
from migronaut.engine.lane.items import Item, Pending, id_of, refused
from migronaut.engine.work import Work
from migronaut.errors import lease_lost

_LONGEST = 1.0
"""Seconds that one transaction may take: so long a write of the application to one of its documents may wait."""
_MOST_BYTES = 16 * 1024 * 1024
"""Bytes of documents that one transaction takes, as far as their average size tells."""
_LEAST = 10
_SURE_FOR = 0.5
"""Seconds for which a lane need not ask again whether its lease is its own: it has claimed, or written under it."""


@define
class Stride:
    """How many documents the next range takes: what fits into a time, learnt from the ranges before.

    Additive steps would take long to get from a slow server to a fast one, so it goes by factors: down by a half, up
    by a quarter (multiplicative increase and decrease).
    """

    batch_size: int
    average_size: Callable[[], int]
    _most: int = field(default=0, init=False)
    _now: int = field(default=0, init=False)

    @property
    def documents(self) -> int:
        """As the migration says, unless that many documents are too large together, or took too long."""
        if not self._now:
            average = self.average_size()
            fitting = _MOST_BYTES // average if average else self.batch_size
            self._now = self._most = max(1, min(self.batch_size, fitting))
        return self._now

    def shorter(self) -> None:
        """It took too long, or met another writer."""
        self._now = max(min(_LEAST, self._most), self._now // 2)

    def took(self, seconds: float) -> None:
        """A range was committed in so many seconds."""
        if seconds > _LONGEST:
            self.shorter()
        elif seconds < _LONGEST / 2:
            self._now = min(self._most, self._now + max(1, self._now // 4))


@frozen(kw_only=True)
class _Ranging:
    """What the strategies for ranges have in common."""

    work: Work
    documents: Documents
    store: Store
    clock: Clock
    halve_after: int = 1

    def foresee(self, items: Sequence[Item]) -> Sequence[Item]:
        """Ask the server what would become of them: what matches afterwards would be rewritten again in every pass."""
        if self.work.must_leave is None:
            return items
        ids = [id_of(item) for item in items]
        again = frozenset(self.documents.still_matching(self.work.must_leave, self.work.stages, ids))
        return [refused(id_of(item), STILL_MATCHES) if item in again else item for item in items]

    def _rewriting(self, attempt: Attempt) -> Rewriting:
        """A whole batch from the cursor to its end, whatever has come since; a part of it by its ids."""
        chunk = attempt.chunk
        scope = evolve(attempt.partition.scope, upper=id_of(chunk.items[-1]), bounded_above=True)
        if attempt.after is not None:
            scope = evolve(scope, lower=attempt.after.last_id, bounded_below=True)
        left_out = [id_of(item) for item in chunk.items if not isinstance(item, bytes)]
        return Rewriting(
            match=self.work.match,
            stages=self.work.stages,
            scope=scope,
            only=None if chunk.whole else [id_of(item) for item in chunk.pending()],
            without=(*self.work.without, *left_out),
        )


@frozen(kw_only=True)
class RangeInTransaction(_Ranging):
    """The update and its checkpoint together; nothing of a failed commit remains."""

    stride: Stride = field(init=False)

    @stride.default
    def _stride(self) -> Stride:
        return Stride(self.work.spec.batch_size, self.documents.average_size)

    @property
    def limit(self) -> int:
        """What fits into the time of one transaction."""
        return self.stride.documents

    def commit(self, attempt: Attempt) -> Fates:
        """Rewrite, count, checkpoint and commit together."""
        pending = len(attempt.chunk.pending())
        if not pending:
            self.store.checkpoint(attempt.partition, attempt.checkpoint(Fates()))
            return Fates()
        attempt.under_way()
        started = self.clock.monotonic()
        try:
            changed = self.documents.rewrite_fenced(
                attempt.partition,
                self._rewriting(attempt),
                checkpoint=lambda changed: attempt.checkpoint(_fates(pending, changed)),
                timeout=_LONGEST if pending > 1 else None,
            )
        except (WriteConflictError, WriteTooSlowError, WriteTooLargeError):
            self.stride.shorter()
            raise
        self.stride.took(self.clock.monotonic() - started)
        return _fates(pending, changed)

    def undone(self, pending: Sequence[Pending]) -> tuple[Sequence[Pending], Counters]:
        """All of it."""
        return pending, Counters()


@define
class LeaseLook:
    """When a lane last knew the lease to be its own, by its own clock."""

    at: float


@frozen(kw_only=True)
class RangeByFilter(_Ranging):
    """The update by its own filter, then the checkpoint; a crash between them replays what no longer matches."""

    lease: LeaseLook = field(init=False)

    @lease.default
    def _just_claimed(self) -> LeaseLook:
        return LeaseLook(self.clock.monotonic())

    @property
    def limit(self) -> int:
        """As the migration says."""
        return self.work.spec.batch_size

    def commit(self, attempt: Attempt) -> Fates:
        """Rewrite, then checkpoint."""
        pending = len(attempt.chunk.pending())
        attempt.under_way()
        fates = Fates()
        if pending:
            self._look_at_lease(attempt.partition)
            fates = _fates(pending, self.documents.rewrite(self._rewriting(attempt)))
        asked = self.clock.monotonic()
        # Neither it nor the update before it waits for a majority; the count at the end of the pass does.
        self.store.checkpoint(attempt.partition, attempt.checkpoint(fates), durable=False)
        self.lease.at = asked
        return fates

    def _look_at_lease(self, partition: Partition) -> None:
        """An update by itself is not fenced: what stood still must not begin one under a lease that is gone."""
        asked = self.clock.monotonic()
        if asked - self.lease.at >= _SURE_FOR:
            if not self.store.holds(partition):
                raise lease_lost()
            self.lease.at = asked

    def undone(self, pending: Sequence[Pending]) -> tuple[Sequence[Pending], Counters]:
        """Those that still match. Of the others, those that are there count as rewritten, and the rest are gone."""
        fetch, ids = self.documents.fetch_ids, [id_of(item) for item in pending]
        old, present = set(fetch(ids, match=self.work.match)), set(fetch(ids))
        # One that was deleted between the two looks is still to be tried, and is counted then.
        migrated = sum(raw in present and raw not in old for raw in pending)
        skipped = sum(raw not in present and raw not in old for raw in pending)
        left = [raw for raw in pending if raw in old]
        return left, Counters(scanned=migrated + skipped, migrated=migrated, skipped=skipped)


def _fates(pending: int, changed: int) -> Fates:
    return Fates(skipped=max(0, pending - changed), came=max(0, changed - pending))
