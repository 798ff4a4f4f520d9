"""One batch, the single write path: read, transform, diff, write under a guard, checkpoint.

A chunk is a run of neighbouring items that is committed together. A batch starts as one chunk. A
refused document becomes a ``Bad`` item in its place; where the server does not say which one it is,
the chunk is halved until the offender stands alone. Halving is also the answer to commits that are
too large or keep conflicting. Chunks stay in order, so every commit may move the cursor to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, evolve, field, frozen

from migronaut.core.ports import (
    Checkpoint,
    Clock,
    Documents,
    Stop,
    Store,
    Write,
    WriteConflictError,
    WriteRefusedError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.core.state import Counters, Cursor, Partition
from migronaut.engine.lane.ahead import Ahead
from migronaut.engine.lane.guards import Fates, GuardStrategy, strategy_of
from migronaut.engine.lane.items import Bad, Conflicted, Item, checkpoint_of, prepare, refusal_text, writes_of
from migronaut.engine.work import Work
from migronaut.spec import Context

_HALVE_AFTER = 3
_CONFLICTS_ALONE = 8
_MAX_BACKOFF = 2.0


@frozen(kw_only=True)
class BatchResult:
    """What a batch did.

    Args:
        cursor: Where the partition is now.
        done: The partition is closed and its lease gone.
        counters: Of this batch.
    """

    cursor: Cursor | None
    done: bool
    counters: Counters


@frozen(kw_only=True)
class Prepared:
    """A batch that is ready to be written; ``end`` when nothing follows in the scope."""

    items: Sequence[Item]
    end: bool


@define
class LeaseLook:
    """When a lane last knew the lease to be its own, by its own clock."""

    at: float


@frozen(kw_only=True)
class Lane:
    """What every batch of one lane works with; ``random`` spreads its back-off."""

    work: Work
    documents: Documents
    store: Store
    clock: Clock
    stop: Stop
    context: Context
    ahead: Ahead
    random: Random
    lease: LeaseLook = field(init=False)
    strategy: GuardStrategy = field(init=False)

    @lease.default
    def _just_claimed(self) -> LeaseLook:
        return LeaseLook(self.clock.monotonic())

    @strategy.default
    def _strategy(self) -> GuardStrategy:
        return strategy_of(self.work, self.documents, self.store)

    def prepare(self, partition: Partition, after: Cursor | None) -> Prepared:
        """Read the next documents of a partition and transform them."""
        work = self.work
        batch = self.documents.read(
            work.match, partition.scope, after=after, limit=work.spec.batch_size, without=work.without
        )
        return Prepared(items=prepare(batch.documents, work, self.context), end=batch.end)

    def run(self, partition: Partition, after: Cursor | None, *, check_left: bool) -> BatchResult:
        """Read one batch and bring it to its end.

        Args:
            check_left: Also make sure that results no longer match (the first batch of a pass by predicate).

        Raises:
            LeaseLostError: Another lane holds the partition now; nothing more was written.
            UnavailableError: No primary; the batch may be run again.
        """
        ready = self.ahead.take(after, lambda: self.prepare(partition, after))
        following = Cursor(last_id=ready.items[-1].id) if ready.items and not ready.end else None
        batch = _Run(self, partition, after, end=ready.end, check_left=check_left)
        self.ahead.meanwhile(
            lambda: batch.commit_all(ready.items), following, lambda: self.prepare(partition, following)
        )
        return batch.finish()


@frozen(kw_only=True)
class _Chunk:
    """Documents that are written in one transaction, and how often they met a conflict as they are."""

    items: Sequence[Item]
    conflicts: int = 0

    def halves(self) -> tuple[_Chunk, _Chunk]:
        """Its first and its second half, each with a fresh count of conflicts."""
        middle = len(self.items) // 2
        return _Chunk(items=self.items[:middle]), _Chunk(items=self.items[middle:])

    def replacing(self, item: Item, by: Item) -> _Chunk:
        """The same with one document in another state, and a fresh count of conflicts."""
        return evolve(self, items=[by if each is item else each for each in self.items], conflicts=0)


class _Run:
    """One batch on its way; the only mutable thing of the write path."""

    def __init__(self, lane: Lane, partition: Partition, after: Cursor | None, *, end: bool, check_left: bool) -> None:
        self.lane = lane
        self.partition = partition
        self.cursor = after
        self.end = end
        self.check_left = check_left
        self.counters = Counters()
        self.chunks: deque[_Chunk] = deque()
        self.left_out: list[Any] = []
        self.retries = 0
        self.round = 0
        self.over_budget = False
        self.done = False

    def finish(self) -> BatchResult:
        """Transform and write again what changed while it was written."""
        self._go_round_again()
        return BatchResult(cursor=self.cursor, done=self.done, counters=self.counters)

    def commit_all(self, items: Sequence[Item]) -> None:
        """Write what was transformed; no function of the user's is called here, whatever thread it is."""
        if items or self.end:
            self.chunks.append(_Chunk(items=items))
        while self.chunks and not self.over_budget:
            chunk = self.chunks.popleft()
            try:
                self._commit(chunk)
            except WriteRefusedError as refusal:
                self._refused(chunk, refusal)
            except WriteTooLargeError:
                self._halve_or(chunk, Bad, "too-large", refusal_text("too-large"))
            except WriteTooSlowError:
                # The server is slow, not the document bad: alone it is left to the next pass.
                self._halve_or(chunk, Conflicted)
            except WriteConflictError:
                self._conflicted(chunk)

    def _commit(self, chunk: _Chunk) -> None:
        bad = [item for item in chunk.items if isinstance(item, Bad)]
        if len(bad) > self.lane.work.spec.max_document_errors:
            # The migration fails anyway: name the documents, leave the cursor for the retry.
            self.over_budget = True
            self._note(checkpoint_of(bad, self.lane.store))
            return
        writes = writes_of(chunk.items)
        fates = self.lane.strategy.commit(
            self.partition,
            writes,
            checkpoint=lambda fates: self._checkpoint(chunk, writes, fates),
            check_left=self.check_left,
        )
        self._took(chunk, writes, fates)

    def _took(self, chunk: _Chunk, writes: Sequence[Write], fates: Fates) -> None:
        """The commit is a fact: follow it."""
        checkpoint = self._checkpoint(chunk, writes, fates)
        self.counters += checkpoint.counters
        self.cursor = checkpoint.cursor or self.cursor
        self.done = checkpoint.done
        self.left_out += [writes[index].id for index in sorted(fates.left_out)]
        self.retries = 0

    def _checkpoint(self, chunk: _Chunk, writes: Sequence[Write], fates: Fates) -> Checkpoint:
        first = not self.round
        bad = [item for item in chunk.items if isinstance(item, Bad)]
        bad += [Bad(writes[index].id, kind, refusal_text(kind)) for index, kind in fates.refused.items()]
        missed = len(fates.left_out) + len(fates.skipped) + len(fates.refused)
        named = checkpoint_of(bad, self.lane.store)
        counters = Counters(
            scanned=len(chunk.items) if first else 0,
            retried=0 if first else len(chunk.items),
            migrated=len(writes) - missed,
            skipped=len(fates.skipped),
            conflicts=sum(isinstance(item, Conflicted) for item in chunk.items),
            batches=int(first and not self.counters.batches and bool(chunk.items)),
            txn_retries=self.retries,
        )
        last = self.end and not self.chunks and not self.left_out and not fates.left_out
        return evolve(
            named,
            cursor=Cursor(last_id=_id(chunk.items[-1])) if first and chunk.items else None,
            counters=counters + named.counters,
            done=first and last,
        )

    def _note(self, checkpoint: Checkpoint) -> None:
        self.lane.store.checkpoint(self.partition, checkpoint)
        self.counters += checkpoint.counters
        self.done = checkpoint.done

    def _refused(self, chunk: _Chunk, refusal: WriteRefusedError) -> None:
        if refusal.index is None:
            self._halve_or(chunk, Bad, "refused", refusal_text("refused"))
            return
        item = writes_of(chunk.items)[refusal.index]
        kind = f"refused-{refusal.code}" if refusal.kind == "refused" else refusal.kind
        self.chunks.appendleft(chunk.replacing(item, Bad(item.id, kind, refusal_text(kind))))

    def _conflicted(self, chunk: _Chunk) -> None:
        """Somebody wrote one of the documents during the transaction: wait a little, then try again."""
        self.retries += 1
        tried = evolve(chunk, conflicts=chunk.conflicts + 1)
        # Full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        longest = min(_MAX_BACKOFF, 0.01 * 2**tried.conflicts)
        self.lane.clock.sleep(self.lane.random.uniform(0, longest), self.lane.stop)
        alone = len(writes_of(chunk.items)) == 1
        if tried.conflicts < (_CONFLICTS_ALONE if alone else _HALVE_AFTER):
            self.chunks.appendleft(tried)
        else:
            self._halve_or(chunk, Conflicted)

    def _halve_or(self, chunk: _Chunk, substitute: type[Bad] | type[Conflicted], *why: str) -> None:
        writes = writes_of(chunk.items)
        if len(writes) == 1:
            self.chunks.appendleft(chunk.replacing(writes[0], substitute(writes[0].id, *why)))
        else:
            first, second = chunk.halves()
            self.chunks.extendleft((second, first))

    def _go_round_again(self) -> None:
        """Transform once more what an application wrote meanwhile; leave to the next pass what keeps moving."""
        work = self.lane.work
        settled = Counters()
        while self.left_out and self.round < work.spec.max_conflict_retries and not self.over_budget:
            self.round += 1
            ids, self.left_out = self.left_out, []
            raws = self.lane.documents.fetch(ids, match=work.match)
            settled += Counters(skipped=len(ids) - len(raws))
            if raws:
                self.commit_all(prepare(raws, work, self.lane.context))
        settled += Counters(conflicts=len(self.left_out))
        ending = self.end and not self.done and not self.over_budget
        if ending or settled != Counters():
            self._note(Checkpoint(counters=settled, done=ending))


def _id(item: Item) -> Any:
    return item.id
