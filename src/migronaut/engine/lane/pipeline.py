"""One batch that the server rewrites itself: a range of ids, one update by pipeline, a checkpoint.

Each document is changed in one step on the server, from the old shape to the new one, so no guard is
needed and no write of an application can come between. An update stops at the first document that
the server refuses, and does not say at which: the range is halved until the offender stands alone.
A crash between update and checkpoint replays the range, which then matches nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import bson
from attrs import evolve, frozen

from migronaut.core.ports import Batch, Checkpoint, WriteRefusedError, WriteTooLargeError, WriteTooSlowError
from migronaut.core.state import Counters, Cursor, Partition, Scope
from migronaut.engine.lane.batch import BatchResult, Lane
from migronaut.engine.lane.items import Bad, checkpoint_of, refusal_text
from migronaut.errors import lease_lost
from migronaut.versioning import CODEC

_SURE_FOR = 0.5
"""Seconds for which a lane need not ask again whether its lease is its own: it has claimed, or written under it."""


def rewrite_batch(lane: Lane, partition: Partition, after: Cursor | None, *, check_left: bool) -> BatchResult:
    """Rewrite the next documents of a partition on the server; the counterpart of ``Lane.run``.

    Args:
        check_left: First see whether the result would still match (the first batch of a pass by predicate).

    Raises:
        LeaseLostError: Another lane holds the partition now.
        UnavailableError: No primary; the batch may be run again.
    """
    ready = lane.ahead.take(after, lambda: _read(lane, partition, after))
    following = Cursor(last_id=_id(ready.documents[-1])) if ready.documents and not ready.end else None
    batch = _Run(lane, partition, after, end=ready.end)
    return lane.ahead.meanwhile(
        lambda: batch.finish(ready.documents, check_left=check_left),
        following,
        lambda: _read(lane, partition, following),
    )


def _read(lane: Lane, partition: Partition, after: Cursor | None) -> Batch:
    work = lane.work
    return lane.documents.read_ids(
        work.match, partition.scope, after=after, limit=work.spec.batch_size, without=work.without
    )


def _id(raw: bytes) -> Any:
    return bson.decode(raw, CODEC)["_id"]


@frozen(kw_only=True)
class _Piece:
    """Neighbouring ids, each as BSON of a document that holds nothing else.

    The whole batch is told to the server as a range, a part of it by its ids; ``refused`` says of a single
    document why it is not told at all.
    """

    ids: Sequence[bytes]
    whole: bool = False
    refused: str | None = None


class _Run:
    """One batch on its way."""

    def __init__(self, lane: Lane, partition: Partition, after: Cursor | None, *, end: bool) -> None:
        self.lane = lane
        self.partition = partition
        self.cursor = after
        self.end = end
        self.counters = Counters()
        self.pieces: deque[_Piece] = deque()
        self.bad = 0
        self.over_budget = False
        self.done = False

    def finish(self, ids: Sequence[bytes], *, check_left: bool) -> BatchResult:
        """Rewrite documents, and find those that cannot be."""
        again = self._would_match(ids) if check_left else frozenset()
        if again:
            self._pieces_without(ids, again)
        else:
            self.pieces.append(_Piece(ids=ids, whole=True))
        # Halving may take long: a lane that is to stop, or has lost its lease, leaves the rest.
        while self.pieces and not self.over_budget and not self.lane.stop.is_set():
            self._next(self.pieces.popleft())
        return BatchResult(cursor=self.cursor, done=self.done, counters=self.counters)

    def _would_match(self, ids: Sequence[bytes]) -> frozenset[bytes]:
        """By predicate: those whose result would match as before. They would be rewritten again in every pass."""
        work = self.lane.work
        if work.must_leave is None:
            return frozenset()
        plain = [_id(raw) for raw in ids]
        return frozenset(self.lane.documents.still_matching(work.must_leave, work.stages, plain))

    def _pieces_without(self, ids: Sequence[bytes], again: frozenset[bytes]) -> None:
        """The offenders one by one, and what stands between them."""
        between: list[bytes] = []
        for raw in ids:
            if raw not in again:
                between.append(raw)
                continue
            if between:
                self.pieces.append(_Piece(ids=between))
                between = []
            self.pieces.append(_Piece(ids=[raw], refused="still-matches"))
        if between:
            self.pieces.append(_Piece(ids=between))

    def _next(self, piece: _Piece) -> None:
        if piece.refused:
            self._refused(piece.ids[0], piece.refused)
        elif piece.ids:
            self._rewrite(piece)
        else:
            self._note(Checkpoint(done=self.end))

    def _rewrite(self, piece: _Piece) -> None:
        work = self.lane.work
        self._look_at_lease()
        try:
            changed = self.lane.documents.rewrite(
                work.match,
                work.stages,
                self._range(_id(piece.ids[-1])),
                only=None if piece.whole else [_id(raw) for raw in piece.ids],
                without=work.without,
            )
        except WriteRefusedError as refusal:
            self._divide(piece, kind=f"refused-{refusal.code}")
        except (WriteTooSlowError, WriteTooLargeError):
            # The server is slow, not the document bad: alone it is left to the next pass.
            self._divide(piece, kind=None)
        else:
            gone = max(0, len(piece.ids) - changed)
            self._passed(piece.ids, Counters(scanned=changed + gone, migrated=changed, skipped=gone))

    def _look_at_lease(self) -> None:
        """An update cannot be fenced: what stood still for a while must not begin one for a lease that is gone."""
        lane, asked = self.lane, self.lane.clock.monotonic()
        if asked - lane.lease.at >= _SURE_FOR:
            if not lane.store.holds(self.partition):
                raise lease_lost()
            lane.lease.at = asked

    def _range(self, last: Any) -> Scope:
        """From the cursor to the last id, whatever has come between since the ids were read."""
        scope = evolve(self.partition.scope, upper=last, bounded_above=True)
        return scope if self.cursor is None else evolve(scope, lower=self.cursor.last_id, bounded_below=True)

    def _divide(self, piece: _Piece, *, kind: str | None) -> None:
        """Count what was done before the update stopped, then halve the rest; alone, that is the offender."""
        left = self._settle(piece.ids)
        if not left:
            self._passed(piece.ids, Counters())
        elif piece.whole or len(piece.ids) > 1:
            middle = (len(left) + 1) // 2
            halves = [_Piece(ids=half) for half in (left[:middle], left[middle:]) if half]
            self.pieces.extendleft(reversed(halves))
        elif kind is not None:
            self._refused(left[0], kind)
        else:
            self._passed(left, Counters(scanned=1, conflicts=1))

    def _settle(self, ids: Sequence[bytes]) -> Sequence[bytes]:
        """Those that still match. Of the others, those that are there count as rewritten, and the rest are gone."""
        fetch, plain = self.lane.documents.fetch_ids, [_id(raw) for raw in ids]
        old, present = set(fetch(plain, match=self.lane.work.match)), set(fetch(plain))
        # One that was deleted between the two looks is still to be tried, and is counted then.
        migrated = sum(raw in present and raw not in old for raw in ids)
        skipped = sum(raw not in present and raw not in old for raw in ids)
        if migrated or skipped:
            counters = Counters(scanned=migrated + skipped, migrated=migrated, skipped=skipped)
            self._note(Checkpoint(counters=counters))
        return [raw for raw in ids if raw in old]

    def _refused(self, raw: bytes, kind: str) -> None:
        """Name a document that cannot be migrated; past the budget the migration fails, and the cursor stays."""
        self.bad += 1
        named = checkpoint_of([Bad(_id(raw), kind, refusal_text(kind))], self.lane.store)
        self.over_budget = self.bad > self.lane.work.spec.max_document_errors
        if self.over_budget:
            self._note(named)
        else:
            self._passed([raw], named.counters + Counters(scanned=1), named)

    def _passed(self, ids: Sequence[bytes], counters: Counters, named: Checkpoint | None = None) -> None:
        """Move the cursor behind ids that are done with."""
        cursor, done = Cursor(last_id=_id(ids[-1])), self.end and not self.pieces
        self._note(evolve(named or Checkpoint(), cursor=cursor, counters=counters, done=done))

    def _note(self, checkpoint: Checkpoint) -> None:
        first = Counters(batches=int(not self.counters.batches and checkpoint.counters != Counters()))
        checkpoint = evolve(checkpoint, counters=checkpoint.counters + first)
        asked = self.lane.clock.monotonic()
        # Neither it nor the update before it waits for a majority; the state of the migration does at the end.
        self.lane.store.checkpoint(self.partition, checkpoint, durable=False)
        self.lane.lease.at = asked
        self.counters += checkpoint.counters
        self.cursor = checkpoint.cursor or self.cursor
        self.done = checkpoint.done
