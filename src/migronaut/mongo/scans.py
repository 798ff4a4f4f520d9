"""Reading raw documents of one collection: forward through an index, or by their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.command_cursor import RawBatchCommandCursor
from pymongo.cursor import RawBatchCursor

from migronaut.core.ports import Batch
from migronaut.mongo.hints import BY_ID, Hint, Hints
from migronaut.mongo.raw import replies, split
from migronaut.mongo.scopes import all_of

_MAX_READ = 16 * 1024 * 1024
"""Bytes after which a batch is cut, so that the memory of a lane does not follow the size of documents."""
_MAX_IDS = 4 * 1024 * 1024
"""The same for ids, which must also fit into one query when a batch is halved."""
_MOST_IN_REPLY = 10_000
_ID_ONLY = {"_id": 1}


class Scans:
    """Reads of one collection; the driver's errors leave it as they are."""

    def __init__(self, collection: Collection[Any], hints: Hints) -> None:
        self._collection = collection
        self._hints = hints

    def forward(self, query: Mapping[str, Any], limit: int, *, ids_only: bool = False) -> Batch:
        """The first raw documents that a query finds, in ``_id`` order; one that is cut by size is no end."""
        return self._hints.using(lambda hint: self._forward(query, limit, hint, ids_only=ids_only))

    def _forward(self, query: Mapping[str, Any], limit: int, hint: Hint, *, ids_only: bool) -> Batch:
        documents: list[bytes] = []
        size, most = 0, _MAX_IDS if ids_only else _MAX_READ
        cursor = self._collection.find_raw_batches(
            query,
            _ID_ONLY if ids_only else None,
            sort=list(BY_ID),
            limit=limit,
            batch_size=min(limit, _MOST_IN_REPLY),
            hint=list(hint),
        )
        with cursor:
            for reply in replies(cursor):
                documents += split(reply)
                size += len(reply)
                if size >= most and len(documents) < limit:
                    return Batch(documents=tuple(documents), end=False)
        return Batch(documents=tuple(documents), end=len(documents) < limit)

    def by_id(
        self,
        ids: Sequence[Any],
        *,
        match: Mapping[str, Any] | None = None,
        session: ClientSession | None = None,
        ids_only: bool = False,
    ) -> list[bytes]:
        """Raw documents by ``_id``, in its order, those that match."""
        cursor = self._collection.find_raw_batches(
            all_of({"_id": {"$in": list(ids)}}, match or {}),
            _ID_ONLY if ids_only else None,
            sort=list(BY_ID),
            batch_size=len(ids) + 1,
            hint=list(BY_ID),
            session=session,
        )
        return _all(cursor)

    def aggregated(self, pipeline: Sequence[Mapping[str, Any]], **options: Any) -> list[bytes]:
        """The raw results of an aggregation."""
        return _all(self._collection.aggregate_raw_batches(pipeline, **options))

    def holds(self, query: Mapping[str, Any]) -> bool:
        """Whether any document matches, by the index on ``_id``; it is not decoded."""
        with self._collection.find_raw_batches(query, _ID_ONLY, limit=1, hint=list(BY_ID)) as cursor:
            return any(split(reply) for reply in replies(cursor))


def _all(cursor: RawBatchCursor[Any] | RawBatchCommandCursor[Any]) -> list[bytes]:
    with cursor:
        return [document for reply in replies(cursor) for document in split(reply)]
