"""A collection in memory: documents as BSON bytes, and writes that commit or conflict as a whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import bson
from attrs import evolve, frozen

from migronaut.core.ports import Condition, WriteConflictError, WriteRefusedError
from migronaut.memory.durability import Durability
from migronaut.memory.server.elements import by_name, updated
from migronaut.memory.server.order import Key, as_stored, sort_key
from migronaut.memory.server.query import compile_query
from migronaut.versioning import CODEC, document

# Texts that are no UTF-8 must not keep a document from being found.
_TOLERANT = CODEC.with_options(unicode_decode_error_handler="surrogateescape")
_DUPLICATE, _INVALID, _TOO_LARGE = 11000, 121, 17419


@frozen(eq=False)
class Stored:
    """One version of one document. Two versions are the same only if they are the same object."""

    raw: bytes
    document: Mapping[str, Any]


class MemoryCollection:
    """Documents of an application, written as the application would. Ids are compared as BSON.

    What the server refuses raises ``WriteRefusedError`` with the server's code.

    Attributes:
        condition: What the server says that it is: a view, a capped collection, nothing any more, …
        indexed: There is an index on version and ``_id``, and it is ready.
    """

    def __init__(
        self, *, lock: AbstractContextManager[Any], max_size: Callable[[], int], durability: Durability
    ) -> None:
        self.lock = lock
        self.max_size = max_size
        self._durability = durability
        self.unique_fields: list[str] = []
        self.refusals: list[Callable[[dict[str, Any]], bool]] = []
        self.condition = Condition()
        self.indexed = True
        self._stored: dict[Key, Stored] = {}
        self._keys: list[Key] = []

    def unique(self, field: str) -> None:
        """Keep a unique index on a top-level field; a missing field counts as null."""
        self.unique_fields.append(field)

    def refuse(self, predicate: Callable[[dict[str, Any]], bool]) -> None:
        """Validate: what ``predicate`` is true for is refused from now on."""
        self.refusals.append(predicate)

    def insert(self, *documents: Mapping[str, Any]) -> None:
        """Insert documents that have an ``_id``, all or none."""
        self.insert_raw(*(bson.encode(one, codec_options=CODEC) for one in documents))

    def insert_raw(self, *raws: bytes) -> None:
        """Insert documents by their bytes: also those that a driver cannot decode."""
        with self.lock:
            self.condition = evolve(self.condition, exists=True)
            work = self.begin()
            for raw in raws:
                parts = by_name(raw)
                ordered = document(parts[b"_id"], *(part for name, part in parts.items() if name != b"_id"))
                work.insert(ordered)
            work.commit()

    def drop(self) -> None:
        """Drop the collection, with all that it was; an insert makes it again."""
        with self.lock:
            self.condition, self.indexed = Condition(exists=False), False
            self.unique_fields.clear()
            self.refusals.clear()
            self._stored.clear()
            self._keys.clear()

    def replace(self, id_: Any, document: Mapping[str, Any]) -> bool:
        """Replace a document; False when there is none."""
        return self._change(id_, {name: value for name, value in document.items() if name != "_id"})

    def update(self, id_: Any, update: Mapping[str, Any]) -> bool:
        """Apply ``$set``, ``$unset`` and ``$inc`` on top-level fields; False when there is no such document."""
        return self._change(id_, update)

    def delete(self, id_: Any) -> bool:
        """Delete a document; False when there is none."""
        with self.lock:
            work = self.begin()
            found = work.delete(sort_key(as_stored(id_)))
            work.commit()
            return found

    def get(self, id_: Any) -> dict[str, Any] | None:
        """A document by ``_id``."""
        stored = self._stored.get(sort_key(as_stored(id_)))
        return None if stored is None else bson.decode(stored.raw, codec_options=_TOLERANT)

    def find(self, match: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The documents that match, in the order of their ids."""
        matches = compile_query(match or {})
        with self.lock:
            found = [stored.raw for _, stored in self.scan() if matches(stored.document)]
        return [bson.decode(raw, codec_options=_TOLERANT) for raw in found]

    def scan(self, *, after: Key | None = None, upto: Key | None = None) -> Iterator[tuple[Key, Stored]]:
        """What is stored, in the order of the ids: those greater than ``after``, up to and with ``upto``."""
        start = 0 if after is None else bisect_right(self._keys, after)
        end = len(self._keys) if upto is None else bisect_right(self._keys, upto)
        for index in range(start, end):
            yield self._keys[index], self._stored[self._keys[index]]

    def begin(self) -> Work:
        """Start writing on a snapshot of what is stored now."""
        with self.lock:
            return Work(self, dict(self._stored))

    def change(self, before: Mapping[Key, Stored], after: Mapping[Key, Stored | None]) -> None:
        """Write all of ``after`` if what it replaces is still what was there before.

        Raises:
            WriteConflictError: Somebody else wrote one of them; nothing was written.
        """
        with self.lock:
            for key in after:
                self.require_same(key, before.get(key))
            self._check_still_unique(after)
            for key, stored in after.items():
                self._write(key, stored)

    def require_same(self, key: Key, before: Stored | None) -> None:
        """Let only the first writer of a document go on.

        Raises:
            WriteConflictError: The document is no longer what it was before.
        """
        if self._stored.get(key) is not before:
            raise WriteConflictError("somebody else wrote one of the documents meanwhile")

    def _change(self, id_: Any, update: Mapping[str, Any]) -> bool:
        raw = bson.encode(update, codec_options=CODEC)
        with self.lock:
            work = self.begin()
            found = work.update(sort_key(as_stored(id_)), raw)
            work.commit()
            return found

    def _check_still_unique(self, after: Mapping[Key, Stored | None]) -> None:
        for field in self.unique_fields:
            taken = {_value(stored, field) for key, stored in self._stored.items() if key not in after}
            if any(stored is not None and _value(stored, field) in taken for stored in after.values()):
                raise WriteConflictError("somebody else took a unique value meanwhile")

    def _write(self, key: Key, stored: Stored | None) -> None:
        if self._durability.kept:
            before = self._stored.get(key)
            self._durability.record(lambda: self._put(key, before))
        self._put(key, stored)

    def _put(self, key: Key, stored: Stored | None) -> None:
        if stored is not None:
            if key not in self._stored:
                insort(self._keys, key)
            self._stored[key] = stored
        elif self._stored.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


class Work:
    """Writes on a snapshot, seen by nobody until they are committed."""

    def __init__(self, collection: MemoryCollection, snapshot: dict[Key, Stored]) -> None:
        self._collection = collection
        self._snapshot = snapshot
        self._written: dict[Key, Stored | None] = {}
        self._taken: dict[str, dict[Key, Key]] = {}

    def get(self, key: Key) -> Stored | None:
        """A document as this work sees it."""
        return self._written[key] if key in self._written else self._snapshot.get(key)

    def insert(self, raw: bytes) -> None:
        """Add a document.

        Raises:
            WriteRefusedError: As the server would.
        """
        stored = _stored(raw)
        self._write(sort_key(stored.document["_id"]), stored, fresh=True)

    def update(self, key: Key, update: bytes) -> bool:
        """Apply an update or a replacement (BSON); False when there is no such document.

        Raises:
            WriteRefusedError, WriteConflictError: As the server would.
        """
        before = self.get(key)
        if before is None:
            return False
        raw = updated(before.raw, update)
        # As on the server, an update that changes nothing writes nothing.
        if raw != before.raw:
            self._write(key, _stored(raw))
        return True

    def replace(self, key: Key, raw: bytes) -> bool:
        """Put a whole document in the place of one; False when it is the same.

        Raises:
            WriteRefusedError: As the server would.
        """
        before = self.get(key)
        if before is not None and before.raw == raw:
            return False
        self._write(key, _stored(raw))
        return True

    def delete(self, key: Key) -> bool:
        """Remove a document; False when there is none."""
        if self.get(key) is None:
            return False
        self._release(key)
        self._written[key] = None
        return True

    def commit(self) -> None:
        """Let everybody see the writes, all at once.

        Raises:
            WriteConflictError: Somebody else wrote one of the documents since the snapshot; nothing was written.
        """
        self._collection.change(self._snapshot, self._written)

    def _write(self, key: Key, stored: Stored, *, fresh: bool = False) -> None:
        if len(stored.raw) > self._collection.max_size():
            raise WriteRefusedError(_TOO_LARGE, kind="too-large")
        decoded = bson.decode(stored.raw, codec_options=_TOLERANT)
        if any(refuses(decoded) for refuses in self._collection.refusals):
            raise WriteRefusedError(_INVALID, by="the validator of the collection")
        # As on the server: validation comes first, then the document itself, then the indexes.
        self._collection.require_same(key, self._snapshot.get(key))
        if fresh and self.get(key) is not None:
            raise WriteRefusedError(_DUPLICATE, by="the unique index '_id_'")
        for field in self._collection.unique_fields:
            if self._index(field).get(_value(stored, field), key) != key:
                raise WriteRefusedError(_DUPLICATE, by=f"the unique index '{field}_1'")
        self._release(key)
        for field in self._collection.unique_fields:
            self._index(field)[_value(stored, field)] = key
        self._written[key] = stored

    def _release(self, key: Key) -> None:
        before = self.get(key)
        if before is not None:
            for field in self._collection.unique_fields:
                self._index(field).pop(_value(before, field), None)

    def _index(self, field: str) -> dict[Key, Key]:
        if field not in self._taken:
            self._taken[field] = {_value(stored, field): key for key, stored in self._snapshot.items()}
        return self._taken[field]


def _stored(raw: bytes) -> Stored:
    return Stored(raw, bson.decode(raw, codec_options=_TOLERANT))


def _value(stored: Stored, field: str) -> Key:
    return sort_key(stored.document.get(field))
