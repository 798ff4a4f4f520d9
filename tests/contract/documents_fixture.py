"""A collection, the application that writes to it, and a claimed partition, in memory and on MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import bson
import pytest
from attrs import frozen
from pymongo.collection import Collection
from pymongo.database import Database

from migronaut.core.ports import Checkpoint, Condition, Documents, Owner, Pass, Store, Write
from migronaut.core.state import Counters, Cursor, Partition, Scope, Spec
from migronaut.memory import MemoryCollection, MemoryDocuments, MemoryServer, MemoryStore
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.store import MongoStore
from migronaut.versioning import CODEC

COLLECTION = "orders"
WORK = Pass(background="20260101000000_orders.py", generation=1, plan="plan")
ANYTHING: Mapping[str, Any] = {}


class Application(Protocol):
    """How the application writes to its collection while it is migrated."""

    def insert(self, *documents: Mapping[str, Any]) -> None: ...
    def update(self, id_: Any, update: Mapping[str, Any]) -> object: ...
    def delete(self, id_: Any) -> object: ...
    def get(self, id_: Any) -> Mapping[str, Any] | None: ...
    def unique(self, field: str) -> None: ...
    def forbid(self, field: str) -> None: ...
    def drop(self) -> None: ...
    def become(self, condition: Condition) -> None: ...


@frozen
class InMemory:
    """The application beside the memory ports."""

    collection: MemoryCollection

    def insert(self, *documents: Mapping[str, Any]) -> None:
        self.collection.insert(*documents)

    def update(self, id_: Any, update: Mapping[str, Any]) -> object:
        return self.collection.update(id_, update)

    def delete(self, id_: Any) -> object:
        return self.collection.delete(id_)

    def get(self, id_: Any) -> Mapping[str, Any] | None:
        return self.collection.get(id_)

    def unique(self, field: str) -> None:
        self.collection.unique(field)

    def forbid(self, field: str) -> None:
        self.collection.refuse(lambda document: field in document)

    def drop(self) -> None:
        self.collection.drop()

    def become(self, condition: Condition) -> None:
        self.collection.condition = condition


@frozen
class OnMongo:
    """The application beside a real server."""

    collection: Collection[Any]

    def insert(self, *documents: Mapping[str, Any]) -> None:
        self.collection.insert_many(documents)

    def update(self, id_: Any, update: Mapping[str, Any]) -> object:
        return self.collection.update_one({"_id": id_}, update)

    def delete(self, id_: Any) -> object:
        return self.collection.delete_one({"_id": id_})

    def get(self, id_: Any) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.collection.find_one({"_id": id_})
        return found

    def unique(self, field: str) -> None:
        self.collection.create_index(field, unique=True)

    def forbid(self, field: str) -> None:
        self.collection.database.command("collMod", self.collection.name, validator={field: {"$exists": False}})

    def drop(self) -> None:
        self.collection.drop()

    def become(self, condition: Condition) -> None:
        db, name = self.collection.database, self.collection.name
        options: dict[str, Any] = {
            "view": {"viewOn": "elsewhere", "pipeline": []},
            "timeseries": {"timeseries": {"timeField": "at"}},
            "collection": {"capped": True, "size": 4096} if condition.capped else {},
        }[condition.kind]
        self.collection.drop()
        db.command("create", name, **options)


@frozen
class World:
    """Everything one test of the contract needs."""

    documents: Documents
    store: Store
    application: Application
    set_interrupt: Callable[[Callable[[str], None]], None]

    def claim(self) -> Partition:
        """A partition under a lease."""
        self.store.add_partitions(
            [
                Partition(
                    id=f"{WORK.background}:1:0",
                    background=WORK.background,
                    generation=WORK.generation,
                    plan=WORK.plan,
                    seq=0,
                    scope=Scope(bracket="number"),
                )
            ]
        )
        claimed = self.store.claim(WORK, owner=Owner(name="lane", host="here", pid=1), slots=1, ttl=60)
        assert isinstance(claimed, Partition)
        return claimed

    def stored_partition(self) -> Partition:
        """The partition as it stands."""
        (partition,) = self.store.partitions(WORK)
        return partition

    def read_all(self) -> list[bytes]:
        """All documents with a number for their ``_id``."""
        batch = self.documents.read(ANYTHING, Scope(bracket="number"), after=None, limit=10_000)
        return list(batch.documents)

    def at(self, point: str, action: Callable[[], object]) -> None:
        """Do ``action`` the first time that a port reaches ``point``."""
        waiting = [point]

        def interrupt(reached: str) -> None:
            if reached in waiting:
                waiting.remove(reached)
                action()

        self.set_interrupt(interrupt)


def decoded(raw: bytes) -> dict[str, Any]:
    return bson.decode(raw, codec_options=CODEC)


def bare(values: object) -> bytes:
    """Values as bytes: equal only if they are the same BSON."""
    return bson.encode({"": values}, codec_options=CODEC)


def write(raw: bytes, update: Mapping[str, Any], **guard: Any) -> Write:
    """An update of a document as it was read, by ``_id`` and ``guard``."""
    id_ = decoded(raw)["_id"]
    statement = bson.encode({"q": {"_id": id_, **guard}, "u": update}, codec_options=CODEC)
    return Write(id=id_, before=raw, statement=statement)


def progress(last_id: Any, *, done: bool = False) -> Checkpoint:
    return Checkpoint(cursor=Cursor(last_id=last_id), counters=Counters(scanned=1, batches=1), done=done)


@contextmanager
def opened(kind: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world in memory or on MongoDB."""
    if kind == "memory":
        server = MemoryServer()
        documents = MemoryDocuments(server, COLLECTION)

        def interrupt_memory(hook: Callable[[str], None]) -> None:
            server.interrupt = hook

        yield World(documents, MemoryStore(server), InMemory(server.collection(COLLECTION)), interrupt_memory)
        return
    db: Database[Any] = request.getfixturevalue("db")
    collection = db.create_collection(COLLECTION, codec_options=CODEC)
    store = MongoStore(db)
    on_mongo = MongoDocuments(store, db, Spec(collection=COLLECTION, filter=ANYTHING))

    def interrupt_mongo(hook: Callable[[str], None]) -> None:
        on_mongo.interrupt = hook

    yield World(on_mongo, store, OnMongo(collection), interrupt_mongo)
