"""One batch on its way into the database, whoever rewrites the documents: this process, or the server by a pipeline.

A chunk is a run of neighbouring items that is committed together. A batch starts as one chunk. A
refused document becomes a ``Bad`` item in its place; where the server does not say which one it is,
the chunk is halved until the offender stands alone. Halving is also the answer to commits that are
too large, too slow, or keep conflicting. Chunks stay in order, so every commit may move the cursor to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import evolve, frozen

from migronaut.core.ports import (
    Checkpoint,
    Clock,
    Stop,
    Store,
    UnavailableError,
    UnderWay,
    WriteConflictError,
    WriteRefusedError,
    WriteTooLargeError,
    WriteTooSlowError,
    alone,
)
from migronaut.core.state import Counters, Cursor, Partition
from migronaut.engine.lane.guards import Attempt, Fates, GuardStrategy
from migronaut.engine.lane.items import Bad, Chunk, Conflicted, Item, Pending, checkpoint_of, id_of, refused
from migronaut.engine.work import Work

_CONFLICTS_ALONE = 8
_MAX_BACKOFF = 2.0
_TOO_LARGE = WriteRefusedError(0, kind="too-large")

ReadAgain = Callable[[Sequence[Any]], tuple[int, Sequence[Item]]]
"""From ids to how many of them still match, and these anew."""


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
class Committing:
    """What a committer works with; ``random`` spreads its back-off."""

    work: Work
    store: Store
    clock: Clock
    stop: Stop
    random: Random
    strategy: GuardStrategy


class Committer:
    """Commits one batch; the only mutable thing of the write path."""

    def __init__(
        self, given: Committing, partition: Partition, after: Cursor | None, *, end: bool, check_left: bool
    ) -> None:
        self._given = given
        self._partition = partition
        self._cursor = after
        self._end = end
        self._check_left = check_left
        self._counters = Counters()
        self._chunks: deque[Chunk] = deque()
        self._left_out: list[Any] = []
        self._tries = 0
        self._retries = 0
        self._bad = 0
        self._round = 0
        self._over_budget = False
        self._done = False

    def finish(self, read_again: ReadAgain) -> BatchResult:
        """Transform and write again what changed while it was written."""
        self._go_round_again(read_again)
        return BatchResult(cursor=self._cursor, done=self._done, counters=self._counters)

    def commit_all(self, items: Sequence[Item], under_way: UnderWay) -> None:
        """Write what is ready; no function of the user's is called here, whatever thread it is."""
        if items or self._end:
            self._chunks.append(Chunk(items=items, whole=not self._round))
        while self._chunks and not self._over_budget and not self._stops():
            chunk = self._chunks.popleft()
            self._tries += 1
            try:
                self._commit(chunk, under_way)
            except WriteRefusedError as refusal:
                self._refused(chunk, refusal)
            except WriteTooLargeError:
                self._divide(chunk, lambda id_: refused(id_, _TOO_LARGE))
            except WriteTooSlowError:
                # The server is slow, not the document bad: alone it is left to the next pass.
                self._divide(chunk, Conflicted)
            except WriteConflictError:
                self._conflicted(chunk)

    def _stops(self) -> bool:
        """Halving and conflicts may take long: a lane that is to stop, or has lost its lease, leaves the rest."""
        return self._tries > 0 and self._given.stop.is_set()

    def _commit(self, chunk: Chunk, under_way: UnderWay) -> None:
        bad = chunk.bad()
        if self._bad + len(bad) > self._given.work.spec.max_document_errors:
            # The migration fails anyway: name the documents, leave the cursor for the retry.
            self._over_budget = True
            self._note(checkpoint_of(bad, self._given.store))
            return
        attempt = Attempt(
            partition=self._partition,
            chunk=chunk,
            after=self._cursor,
            checkpoint=lambda fates: self._checkpoint(chunk, fates),
            under_way=under_way,
            check_left=self._check_left,
        )
        fates = self._given.strategy.commit(attempt)
        self._took(chunk, fates)

    def _took(self, chunk: Chunk, fates: Fates) -> None:
        """The commit is a fact: follow it."""
        checkpoint = self._checkpoint(chunk, fates)
        self._counters += checkpoint.counters
        self._cursor = checkpoint.cursor or self._cursor
        self._done = checkpoint.done
        self._bad += checkpoint.counters.failed
        pending = chunk.pending()
        self._left_out += [id_of(pending[index]) for index in sorted(fates.left_out)]
        self._retries = 0

    def _checkpoint(self, chunk: Chunk, fates: Fates) -> Checkpoint:
        first = not self._round
        pending = chunk.pending()
        bad = chunk.bad()
        bad += [refused(id_of(pending[index]), why) for index, why in fates.refused.items()]
        missed = len(fates.left_out) + fates.skipped + len(fates.refused)
        named = checkpoint_of(bad, self._given.store)
        counters = Counters(
            scanned=len(chunk.items) + fates.came if first else 0,
            retried=0 if first else len(chunk.items),
            migrated=len(pending) - missed + fates.came,
            skipped=fates.skipped,
            conflicts=sum(isinstance(item, Conflicted) for item in chunk.items),
            batches=int(first and not self._counters.batches and bool(chunk.items)),
            txn_retries=self._retries,
        )
        last = self._end and not self._chunks and not self._left_out and not fates.left_out
        return evolve(
            named,
            cursor=Cursor(last_id=id_of(chunk.items[-1])) if first and chunk.items else None,
            counters=counters + named.counters,
            done=first and last,
        )

    def _note(self, checkpoint: Checkpoint) -> None:
        self._given.store.checkpoint(self._partition, checkpoint)
        self._counters += checkpoint.counters
        self._bad += checkpoint.counters.failed
        self._done = checkpoint.done

    def _refused(self, chunk: Chunk, why: WriteRefusedError) -> None:
        if why.index is None:
            self._divide(chunk, lambda id_: refused(id_, why))
            return
        item = chunk.pending()[why.index]
        self._chunks.appendleft(chunk.replacing(item, refused(id_of(item), why)))

    def _conflicted(self, chunk: Chunk) -> None:
        """Somebody wrote one of the documents during the transaction: wait a little, then try again."""
        self._retries += 1
        tried = evolve(chunk, conflicts=chunk.conflicts + 1)
        # Full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        longest = min(_MAX_BACKOFF, 0.01 * 2**tried.conflicts)
        self._given.clock.sleep(self._given.random.uniform(0, longest), self._given.stop)
        alone = len(chunk.pending()) == 1
        if tried.conflicts < (_CONFLICTS_ALONE if alone else self._given.strategy.halve_after):
            self._chunks.appendleft(tried)
        else:
            self._divide(chunk, Conflicted)

    def _divide(self, chunk: Chunk, substitute: Callable[[Any], Bad | Conflicted]) -> None:
        """Halve what is still to do; alone, that is the offender."""
        pending = chunk.pending()
        if not pending:
            # Not a document but the record of the lane could not be written: nothing gets smaller by halving it.
            raise UnavailableError("a checkpoint could not be written")
        left = self._still_to_do(pending)
        if len(left) < len(pending):
            chunk = chunk.without_done(left)
        if not left:
            self._chunks.appendleft(chunk)
        elif len(pending) > 1 or chunk.whole:
            self._chunks.extendleft(reversed(chunk.halves()))
        else:
            self._chunks.appendleft(chunk.replacing(left[0], substitute(id_of(left[0]))))

    def _still_to_do(self, pending: Sequence[Pending]) -> Sequence[Pending]:
        """Without a transaction, part of it may be done; that is counted here and now."""
        left, done = self._given.strategy.undone(pending)
        if done != Counters():
            self._note(Checkpoint(counters=done))
        return left

    def _go_round_again(self, read_again: ReadAgain) -> None:
        """Transform once more what an application wrote meanwhile; leave to the next pass what keeps moving."""
        settled = Counters()
        while self._left_out and self._round < self._given.work.spec.max_conflict_retries and not self._ended_early():
            self._round += 1
            ids, self._left_out = self._left_out, []
            there, items = read_again(ids)
            settled += Counters(skipped=len(ids) - there)
            if items:
                self.commit_all(items, alone)
        settled += Counters(conflicts=len(self._left_out))
        ending = self._end and not self._done and not self._ended_early()
        if ending or settled != Counters():
            self._note(Checkpoint(counters=settled, done=ending))

    def _ended_early(self) -> bool:
        """Whether chunks were left: over the budget, or because it is to stop."""
        return self._over_budget or bool(self._chunks)
