"""A collection and the application that writes to it, in memory and on MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import frozen
from pymongo.collection import Collection
from pymongo.database import Database

from migronaut.core.ports import Condition
from migronaut.core.state import Spec
from migronaut.memory import MemoryCollection, MemoryDocuments, MemoryServer, MemoryStore
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.store import MongoStore
from migronaut.testing.contracts import World
from migronaut.testing.contracts.world import ANYTHING, COLLECTION
from migronaut.versioning import CODEC


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


class EachDocuments:
    """Gives a suite of ``Documents`` each implementation in turn."""

    @pytest.fixture(params=["memory", "mongo"])
    def world(self, request: pytest.FixtureRequest) -> Iterator[World]:
        with opened(request.param, request) as opened_world:
            yield opened_world
