"""The collection that is being rewritten, on a real server.

Everything is raw BSON: the bytes that were read are compared with the bytes of the snapshot in which
they are overwritten, so no write of an application is lost, whether or not it counts revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import bson
from bson.errors import BSONError
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import ExecutionTimeout, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from migronaut.core.partitioning import BRACKETS
from migronaut.core.ports import (
    Batch,
    CheckpointFor,
    CheckpointForCount,
    Condition,
    GuardedResult,
    Rewriting,
    Settled,
    Stages,
    TookTooLongError,
    UnderWay,
    Write,
    WriteRefusedError,
    alone,
)
from migronaut.core.state import Cursor, Partition, Scope, Spec
from migronaut.mongo.condition import acknowledges, condition
from migronaut.mongo.connection import translating
from migronaut.mongo.hints import BY_ID, Hint, Hints, without_scans
from migronaut.mongo.pipelines import PipelineUpdates
from migronaut.mongo.scans import Scans
from migronaut.mongo.scopes import all_of, bracket_of, scope_filter, type_filter
from migronaut.mongo.settling import seen_since, settle
from migronaut.mongo.store import MongoStore
from migronaut.mongo.updates import UpdateCommands
from migronaut.versioning import CODEC

_COMMIT_TRIES = 3


class MongoDocuments:
    """``Documents`` on PyMongo. ``interrupt`` is called at named points, so that tests can force an interleaving."""

    def __init__(self, store: MongoStore, db: Database[Any], spec: Spec) -> None:
        self.interrupt: Callable[[str], None] = lambda point: None
        self._store = store
        self._spec = spec
        self._db = db.with_options(CODEC, ReadPreference.PRIMARY, WriteConcern("majority"), ReadConcern("local"))
        self._updates = UpdateCommands(self._db, spec.collection)
        self._pipelines = PipelineUpdates(self._db, spec.collection)
        self._collection = self._db[spec.collection]
        self._hints = Hints(self._collection, spec)
        self._scans = Scans(self._collection, self._hints)
        self._write_concern = WriteConcern(**spec.write_concern)
        # A pipeline's update may be undone by a failover together with its checkpoint: then the range is done again.
        self._before_checkpoint = {"w": 1} if spec.write_concern == {"w": "majority"} else spec.write_concern

    def transactions(self) -> bool:
        """True on replica sets and mongos."""
        with translating():
            hello = self._updates.hello
        return "setName" in hello or self._sharded()

    def _sharded(self) -> bool:
        return bool(self._updates.hello.get("msg") == "isdbgrid")

    def condition(self) -> Condition:
        """What the server lists under the collection's name."""
        with translating():
            return condition(self._collection, sharded=self._sharded())

    def acknowledges(self) -> bool:
        """Ask with a write that touches nothing."""
        with translating():
            return acknowledges(self._collection, self._spec.write_concern)

    def indexed(self) -> bool:
        """True when an index on version and ``_id`` exists, or none is needed."""
        with translating():
            return not self._spec.versioned or self._hints.has_wanted()

    def settle(self) -> Settled:
        """A barrier behind which a majority has all that was written before."""
        settled = settle(self._collection)
        self.interrupt("documents.settled")
        return settled

    def count(
        self,
        match: Mapping[str, Any],
        *,
        limit: int,
        without: Sequence[Any] = (),
        timeout: float | None = None,
        since: Settled | None = None,
    ) -> int:
        """Matching documents, at most ``limit``."""
        query = all_of(match, _excluding(without))
        with _capped(timeout) as options, seen_since(self._collection, since) as (collection, session):

            def count(hint: Hint | None) -> int:
                return collection.count_documents(query, limit=limit, session=session, **options | _hinted(hint))

            # By predicate the server knows better which index, if any, finds what matches.
            return self._hints.using(count) if self._spec.versioned else without_scans(count)

    def total(self) -> int:
        """Documents in the collection, from its metadata."""
        with translating():
            return self._collection.estimated_document_count()

    def average_size(self) -> int:
        """Bytes of a document on average, from the statistics of the collection (of all shards together)."""
        stages: list[dict[str, Any]] = [
            {"$collStats": {"storageStats": {}}},
            {"$group": {"_id": None, "size": {"$sum": "$storageStats.size"}, "count": {"$sum": "$storageStats.count"}}},
        ]
        with translating(), self._collection.aggregate(stages) as found:
            told = next(found, {"size": 0, "count": 0})
        return int(told["size"]) // int(told["count"]) if told["count"] else 0

    def brackets(self) -> tuple[str, ...]:
        """Brackets that hold any document: one probe of the ``_id`` index each."""
        with translating():
            return tuple(bracket.name for bracket in BRACKETS if self._holds(bracket.name))

    def _holds(self, bracket: str) -> bool:
        return self._scans.holds({"_id": type_filter(bracket)})

    def sample(
        self, match: Mapping[str, Any], *, size: int, collection_first: bool, timeout: float
    ) -> Mapping[str, Sequence[Any]]:
        """Random ids by bracket, sorted by the server."""
        stages = [{"$sample": {"size": size}}, {"$match": dict(match)}]
        pipeline: list[dict[str, Any]] = stages if collection_first else stages[::-1]
        pipeline += [{"$project": {"type": {"$type": "$_id"}}}, {"$sort": {"_id": 1}}]
        found: dict[str, list[Any]] = {}
        with _capped(timeout) as options:
            rows = without_scans(lambda hint: self._scans.aggregated(pipeline, **options | _hinted(hint)))
        for row in rows:
            # An id that cannot be decoded is no boundary; the lane that comes to it says so.
            with suppress(BSONError, ValueError):
                sampled = bson.decode(row, CODEC)
                found.setdefault(bracket_of(sampled["type"]), []).append(sampled["_id"])
        return found

    def read(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next raw documents of a scope, cut after 16 MiB."""
        query = all_of(match, scope_filter(scope, after), _excluding(without))
        with translating():
            read = self._scans.forward(query, limit)
        self.interrupt("documents.read")
        return read

    def read_ids(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next ids of a scope; with the index on version and ``_id`` no document is touched."""
        query = all_of(match, scope_filter(scope, after), _excluding(without))
        with translating():
            read = self._scans.forward(query, limit, ids_only=True)
        self.interrupt("documents.read")
        return read

    def fetch(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Documents by ``_id``, in its order."""
        with translating():
            return tuple(self._scans.by_id(ids, match=match))

    def fetch_ids(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Ids of documents by ``_id``, in its order."""
        with translating():
            return tuple(self._scans.by_id(ids, match=match, ids_only=True))

    def write_same(
        self,
        partition: Partition,
        writes: Sequence[Write],
        *,
        checkpoint: CheckpointFor,
        under_way: UnderWay = alone,
        must_leave: Mapping[str, Any] | None = None,
    ) -> frozenset[int]:
        """One short snapshot transaction: compare, update, checkpoint, commit."""
        with self._transaction(partition) as session:
            left_out = self._left_out(writes, session)
            under_way()
            self.interrupt("documents.write_same.compared")
            written = [index for index in range(len(writes)) if index not in left_out]
            self._updates.ordered(writes, written, session)
            if must_leave is not None:
                self._check_left(writes, written, must_leave, session)
            self._store.checkpoint(partition, checkpoint(left_out), session=session)
            self.interrupt("documents.write_same.before-commit")
            _commit(session)
        self.interrupt("documents.write_same.committed")
        return left_out

    @contextmanager
    def _transaction(self, partition: Partition) -> Iterator[ClientSession]:
        """A snapshot transaction of a lane; leaving the block by an exception aborts it."""
        session = self._store.sessions.of(partition.lease)
        with (
            translating(),
            session.start_transaction(ReadConcern("snapshot"), self._write_concern, ReadPreference.PRIMARY),
        ):
            yield session

    def _left_out(self, writes: Sequence[Write], session: ClientSession) -> frozenset[int]:
        """Which documents are not, byte for byte, the ones that were transformed."""
        now = self._scans.by_id([write.id for write in writes], session=session)
        if len(now) == len(writes) and all(write.before == raw for write, raw in zip(writes, now, strict=True)):
            return frozenset()
        present = set(now)
        return frozenset(index for index, write in enumerate(writes) if write.before not in present)

    def _check_left(
        self, writes: Sequence[Write], indexes: Sequence[int], must_leave: Mapping[str, Any], session: ClientSession
    ) -> None:
        """Refuse the first written document that would match for ever."""
        still = self._scans.by_id(
            [writes[index].id for index in indexes], match=must_leave, session=session, ids_only=True
        )
        if still:
            keys = {bson.encode({"_id": bson.decode(raw, CODEC)["_id"]}, codec_options=CODEC) for raw in still}
            for index in indexes:
                if bson.encode({"_id": writes[index].id}, codec_options=CODEC) in keys:
                    raise WriteRefusedError(0, index, kind="still-matches")

    def write_guarded(self, writes: Sequence[Write], *, write_concern: Mapping[str, Any]) -> GuardedResult:
        """One unordered update; each statement's filter is its guard."""
        with translating():
            result = self._updates.unordered(writes, write_concern)
        self.interrupt("documents.write_guarded.written")
        return result

    def rewrite_fenced(
        self,
        partition: Partition,
        rewriting: Rewriting,
        *,
        checkpoint: CheckpointForCount,
        timeout: float | None = None,
    ) -> int:
        """One short snapshot transaction: one update by pipeline, checkpoint, commit."""
        query = _chosen(rewriting)
        limit = {} if timeout is None else {"maxTimeMS": max(1, int(timeout * 1000))}

        def once(hint: Hint) -> int:
            """Rewrite in one transaction, by this index."""
            with self._transaction(partition) as session:
                changed = self._pipelines.rewrite(query, rewriting.stages, hint=hint, session=session, **limit)
                self.interrupt("documents.rewrite_fenced.rewritten")
                self._store.checkpoint(partition, checkpoint(changed), session=session)
                self.interrupt("documents.rewrite_fenced.before-commit")
                _commit(session)
            return changed

        with translating():
            changed = self._hints.using(once) if rewriting.only is None else once(BY_ID)
        self.interrupt("documents.rewrite_fenced.committed")
        return changed

    def rewrite(self, rewriting: Rewriting) -> int:
        """One update by pipeline, atomic for each document."""
        query = _chosen(rewriting)

        def once(hint: Hint) -> int:
            """Rewrite by itself, by this index."""
            return self._pipelines.rewrite(query, rewriting.stages, hint=hint, writeConcern=self._before_checkpoint)

        with translating():
            changed = self._hints.using(once) if rewriting.only is None else once(BY_ID)
        self.interrupt("documents.rewrite.rewritten")
        return changed

    def still_matching(self, match: Mapping[str, Any], stages: Stages, ids: Sequence[Any]) -> tuple[bytes, ...]:
        """Run a pipeline for its results only."""
        query = all_of({"_id": {"$in": list(ids)}}, match)
        with translating():
            return self._pipelines.still_matching(query, match, stages)

    def refusal_of(self, stages: Stages) -> str | None:
        """Ask with an update that finds nothing."""
        with translating():
            return self._pipelines.refusal_of(stages)


@contextmanager
def _capped(timeout: float | None) -> Iterator[dict[str, Any]]:
    """The options of a read with a time limit in seconds, and what its end looks like."""
    with translating():
        try:
            yield {} if timeout is None else {"maxTimeMS": max(1, int(timeout * 1000))}
        except ExecutionTimeout as error:
            raise TookTooLongError from error


def _chosen(rewriting: Rewriting) -> dict[str, Any]:
    """The query for what a pipeline rewrites."""
    only = rewriting.only
    chosen = scope_filter(rewriting.scope, None) if only is None else {"_id": {"$in": list(only)}}
    return all_of(rewriting.match, chosen, _excluding(rewriting.without))


def _hinted(hint: Hint | None) -> dict[str, Any]:
    return {} if hint is None else {"hint": dict(hint)}


def _excluding(ids: Sequence[Any]) -> dict[str, Any]:
    return {"_id": {"$nin": list(ids)}} if ids else {}


def _commit(session: ClientSession) -> None:
    """Commit; an unknown result is asked for again, since a commit can be repeated."""
    for attempt in range(1, _COMMIT_TRIES + 1):
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            if attempt == _COMMIT_TRIES or not error.has_error_label("UnknownTransactionCommitResult"):
                raise
