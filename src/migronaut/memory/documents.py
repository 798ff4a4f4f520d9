"""``Documents`` in memory: snapshots, write conflicts and refusals included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import bson

from migronaut.core.partitioning import BRACKETS
from migronaut.core.ports import (
    Batch,
    Checkpoint,
    CheckpointFor,
    CheckpointForCount,
    Condition,
    GuardedResult,
    PortError,
    Rewriting,
    Settled,
    Stages,
    UnderWay,
    Write,
    WriteConflictError,
    WriteRefusedError,
    alone,
)
from migronaut.core.state import Cursor, Partition, Scope
from migronaut.errors import TransactionsUnsupportedError
from migronaut.memory.database import MemoryServer
from migronaut.memory.leases import checkpointed
from migronaut.memory.server.collection import Stored, Work
from migronaut.memory.server.elements import by_name, inner
from migronaut.memory.server.order import Key, as_stored, bracket_of, sort_key
from migronaut.memory.server.pipeline import compile_pipeline
from migronaut.memory.server.query import compile_query
from migronaut.versioning import CODEC

_STATEMENT_TOO_LARGE = 10334
_BAD_VALUE, _TYPE_MISMATCH = 2, 14

_Commit = Callable[[Checkpoint, str], None]


class MemoryDocuments:
    """One collection of a ``MemoryServer`` as the engine sees it.

    Args:
        server: Holds the data; ``server.collection(name)`` is the application's side of it.
        collection: Its name.
    """

    def __init__(self, server: MemoryServer, collection: str) -> None:
        self._server = server
        self._collection = server.collection(collection)

    def transactions(self) -> bool:
        """True unless the server simulates a standalone one."""
        return self._server.transactions

    def condition(self) -> Condition:
        """As the collection says."""
        return self._collection.condition

    def acknowledges(self) -> bool:
        """True: one process has nobody to wait for."""
        return True

    def indexed(self) -> bool:
        """As the collection says; scans find the same without an index."""
        return self._collection.indexed

    def settle(self) -> Settled:
        """At once: one process has nobody to wait for."""
        self._server.reach("documents.settle")
        return Settled()

    def count(
        self,
        match: Mapping[str, Any],
        *,
        limit: int,
        without: Sequence[Any] = (),
        timeout: float | None = None,
        since: Settled | None = None,
    ) -> int:
        """Matching documents, at most ``limit``. It never takes long: see ``sample``."""
        self._server.reach("documents.count")
        left_out = _keys(without)
        with self._server.lock:
            found = sum(key not in left_out for key, _ in self._matching(match))
        return min(found, limit)

    def total(self) -> int:
        """Documents in the collection."""
        self._server.reach("documents.total")
        with self._server.lock:
            return sum(1 for _ in self._collection.scan())

    def average_size(self) -> int:
        """Bytes of a document on average."""
        with self._server.lock:
            sizes = [len(stored.raw) for _, stored in self._collection.scan()]
        return sum(sizes) // len(sizes) if sizes else 0

    def brackets(self) -> tuple[str, ...]:
        """Brackets that hold any document, matching or not, in BSON order."""
        self._server.reach("documents.brackets")
        with self._server.lock:
            present = {bracket_of(key) for key, _ in self._collection.scan()}
        return tuple(bracket.name for bracket in BRACKETS if bracket.name in present)

    def sample(
        self, match: Mapping[str, Any], *, size: int, collection_first: bool, timeout: float
    ) -> Mapping[str, Sequence[Any]]:
        """Random ids by bracket. A hook that raises ``TookTooLongError`` simulates that it takes too long."""
        self._server.reach("documents.sample")
        matches = compile_query(match)
        with self._server.lock:
            rows = list(self._collection.scan() if collection_first else self._matching(match))
            chosen = self._server.random.sample(rows, min(size, len(rows)))
        found: dict[str, list[Any]] = {}
        for key, stored in sorted(chosen, key=lambda row: row[0]):
            if matches(stored.document):
                found.setdefault(bracket_of(key), []).append(stored.document["_id"])
        return found

    def read(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next documents of a scope, cut after ``server.max_reply_size`` bytes."""
        left_out = _keys(without)
        documents: list[bytes] = []
        size = 0
        cut = False
        with self._server.lock:
            for key, stored in self._matching(match, after=_start(scope, after), upto=_end(scope)):
                cut = len(documents) == limit or size >= self._server.max_reply_size
                if cut:
                    break
                if bracket_of(key) == scope.bracket and key not in left_out:
                    documents.append(stored.raw)
                    size += len(stored.raw)
        self._server.reach("documents.read")
        return Batch(documents=tuple(documents), end=not cut and len(documents) < limit)

    def read_ids(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next ids of a scope."""
        read = self.read(match, scope, after=after, limit=limit, without=without)
        return Batch(documents=_ids_of(read.documents), end=read.end)

    def fetch_ids(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Ids of documents by ``_id``, in its order."""
        return _ids_of(self.fetch(ids, match=match))

    def fetch(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Documents by ``_id``, in its order."""
        self._server.reach("documents.fetch")
        wanted = _keys(ids)
        with self._server.lock:
            return tuple(stored.raw for key, stored in self._matching(match or {}) if key in wanted)

    def write_same(
        self,
        partition: Partition,
        writes: Sequence[Write],
        *,
        checkpoint: CheckpointFor,
        under_way: UnderWay = alone,
        must_leave: Mapping[str, Any] | None = None,
    ) -> frozenset[int]:
        """One snapshot transaction; the first writer wins.

        Returns:
            Indexes of writes left out because the document is gone or is no longer the one transformed.

        Raises:
            TransactionsUnsupportedError: The server was made without transactions.
            LeaseLostError, WriteConflictError, WriteRefusedError: Nothing was written; a conflict is what whoever
                comes second gets.
        """
        with self._transaction(partition) as (work, commit):
            left_out = frozenset(index for index, write in enumerate(writes) if not _is_same(work, write))
            under_way()
            self._server.reach("documents.write_same.compared")
            written = [index for index in range(len(writes)) if index not in left_out]
            for index in written:
                self._apply(work, writes, index)
            if must_leave is not None:
                _check_left(work, writes, written, must_leave)
            commit(checkpoint(left_out), "documents.write_same")
        return left_out

    @contextmanager
    def _transaction(self, partition: Partition) -> Iterator[tuple[Work, _Commit]]:
        """Writes on a snapshot, and what commits them together with a checkpoint."""
        if not self._server.transactions:
            raise TransactionsUnsupportedError(
                "This server has no transactions: use the revision guard, or run a replica set."
            )
        with self._server.lock:
            work = self._collection.begin()
            lease = self._server.partitions.get(partition.id)

        def commit(checkpoint: Checkpoint, point: str) -> None:
            """Commit the writes with their checkpoint, if the lease is still ours."""
            self._server.reach("store.checkpoint")
            progress = checkpointed(lease, partition, checkpoint, now=self._server.now())
            self._server.reach(f"{point}.before-commit")
            with self._server.lock:
                if self._server.partitions.get(partition.id) is not lease:
                    raise WriteConflictError("somebody else wrote the partition meanwhile")
                with self._server.durability.together():
                    work.commit()
                    self._server.partitions[partition.id] = progress
            self._server.reach(f"{point}.committed")

        yield work, commit

    def write_guarded(self, writes: Sequence[Write], *, write_concern: Mapping[str, Any]) -> GuardedResult:
        """Each statement on its own under its own filter; every write is acknowledged by all.

        Raises:
            PortError: A field that one of them counts up holds no number (any more); the others were written.
        """
        matched = 0
        refused: dict[int, WriteRefusedError] = {}
        fault: PortError | None = None
        for index in range(len(writes)):
            self._server.reach("documents.write_guarded.statement")
            with self._server.lock:
                work = self._collection.begin()
                try:
                    matched += self._apply(work, writes, index)
                    work.commit()
                except WriteRefusedError as error:
                    refused[index] = error
                except PortError as error:
                    fault = error
        if fault is not None:
            raise fault
        self._server.reach("documents.write_guarded.written")
        return GuardedResult(matched=matched, refused=refused)

    def rewrite_fenced(
        self,
        partition: Partition,
        rewriting: Rewriting,
        *,
        checkpoint: CheckpointForCount,
        timeout: float | None = None,
    ) -> int:
        """One snapshot transaction; the first writer wins. It never takes long: a hook raises ``WriteTooSlowError``.

        Raises:
            TransactionsUnsupportedError: The server was made without transactions.
            LeaseLostError, WriteConflictError, WriteRefusedError: Nothing was written.
        """
        run, matches = compile_pipeline(rewriting.stages), compile_query(rewriting.match)
        with self._transaction(partition) as (work, commit):
            changed = 0
            for key in self._keys_of(rewriting):
                self._server.reach("documents.rewrite_fenced.document")
                stored = work.get(key)
                if stored is not None and matches(stored.document):
                    changed += work.replace(key, run(stored.raw))
            self._server.reach("documents.rewrite_fenced.rewritten")
            commit(checkpoint(changed), "documents.rewrite_fenced")
        return changed

    def rewrite(self, rewriting: Rewriting) -> int:
        """One document after the other, each in one step, up to the first that is refused."""
        run, matches = compile_pipeline(rewriting.stages), compile_query(rewriting.match)
        changed = 0
        for key in self._keys_of(rewriting):
            self._server.reach("documents.rewrite.document")
            with self._server.lock:
                work = self._collection.begin()
                stored = work.get(key)
                if stored is None or not matches(stored.document):
                    continue
                changed += work.replace(key, run(stored.raw))
                work.commit()
        self._server.reach("documents.rewrite.rewritten")
        return changed

    def _keys_of(self, rewriting: Rewriting) -> list[Key]:
        left_out = _keys(rewriting.without)
        with self._server.lock:
            chosen = self._within(rewriting.scope) if rewriting.only is None else _keys(rewriting.only)
            return [key for key, _ in self._matching(rewriting.match) if key in chosen and key not in left_out]

    def _within(self, scope: Scope) -> frozenset[Key]:
        rows = self._collection.scan(after=_start(scope, None), upto=_end(scope))
        return frozenset(key for key, _ in rows if bracket_of(key) == scope.bracket)

    def still_matching(self, match: Mapping[str, Any], stages: Stages, ids: Sequence[Any]) -> tuple[bytes, ...]:
        """Run a pipeline for its results only."""
        run, matches = compile_pipeline(stages), compile_query(match)
        try:
            results = [(raw, run(raw)) for raw in self.fetch(ids, match=match)]
        except WriteRefusedError:
            return ()
        return _ids_of([raw for raw, result in results if matches(_decoded(result))])

    def refusal_of(self, stages: Stages) -> str | None:
        """None: what the memory cannot run raises ``QueryUnsupportedError``."""
        compile_pipeline(stages)
        return None

    def _matching(
        self, match: Mapping[str, Any], *, after: Key | None = None, upto: Key | None = None
    ) -> Iterator[tuple[Key, Stored]]:
        matches = compile_query(match)
        rows = self._collection.scan(after=after, upto=upto)
        return ((key, stored) for key, stored in rows if matches(stored.document))

    def _apply(self, work: Work, writes: Sequence[Write], index: int) -> bool:
        """Apply one statement; False when its filter matches nothing."""
        statement = writes[index].statement
        if len(statement) > self._server.max_document_size:
            raise WriteRefusedError(_STATEMENT_TOO_LARGE, index, kind="too-large")
        parts = by_name(statement)
        query: dict[str, Any] = bson.decode(inner(parts[b"q"], b"q"), codec_options=CODEC)
        key = sort_key(as_stored(writes[index].id))
        stored = work.get(key)
        if stored is None or not compile_query(query)(stored.document):
            return False
        try:
            return work.update(key, inner(parts[b"u"], b"u"))
        except WriteRefusedError as error:
            if error.code in {_BAD_VALUE, _TYPE_MISMATCH}:
                # Not the result is refused, but the statement: the document was another when it was made.
                raise PortError(f"server error {error.code}") from None
            raise WriteRefusedError(error.code, index, kind=error.kind, by=error.by) from None


def _keys(ids: Sequence[Any]) -> frozenset[Key]:
    return frozenset(sort_key(as_stored(id_)) for id_ in ids)


def _decoded(raw: bytes) -> dict[str, Any]:
    return bson.decode(raw, codec_options=CODEC)


def _ids_of(documents: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(bson.encode({"_id": bson.decode(raw, CODEC)["_id"]}, codec_options=CODEC) for raw in documents)


def _start(scope: Scope, after: Cursor | None) -> Key | None:
    if after is not None:
        return sort_key(as_stored(after.last_id))
    return sort_key(as_stored(scope.lower)) if scope.bounded_below else None


def _end(scope: Scope) -> Key | None:
    return sort_key(as_stored(scope.upper)) if scope.bounded_above else None


def _is_same(work: Work, write: Write) -> bool:
    stored = work.get(sort_key(as_stored(write.id)))
    return stored is not None and stored.raw == write.before


def _check_left(work: Work, writes: Sequence[Write], written: Sequence[int], must_leave: Mapping[str, Any]) -> None:
    matches = compile_query(must_leave)
    for index in written:
        stored = work.get(sort_key(as_stored(writes[index].id)))
        if stored is not None and matches(stored.document):
            raise WriteRefusedError(0, index, kind="still-matches")
