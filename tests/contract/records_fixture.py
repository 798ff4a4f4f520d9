"""Store, tickets and locks in memory and on MongoDB, with time that a test can let pass."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from migronaut.memory import MemoryLocks, MemoryServer, MemoryStore, MemoryTickets
from migronaut.mongo.locks import MongoLocks
from migronaut.mongo.store import MongoStore
from migronaut.mongo.tickets import MongoTickets
from migronaut.testing.contracts import Records


def in_memory() -> Records:
    server = MemoryServer()
    return Records(
        store=MemoryStore(server),
        tickets=MemoryTickets(server),
        locks=MemoryLocks(server),
        pass_time=server.clock.advance,
    )


def on_mongo(db: Database[Any]) -> Records:
    """A server's clock cannot be moved; what it stamped can be moved into the past instead."""
    stamps = {
        "_migronaut_background_partitions": "lease.renewed_at",
        "_migronaut_background_tickets": "due",
        "_migronaut_background_clock": "at",
        "_migronaut_locks": "locked_at",
    }

    def pass_time(seconds: float) -> None:
        for collection, stamp in stamps.items():
            earlier = {"$subtract": [f"${stamp}", seconds * 1000]}
            db[collection].update_many({stamp: {"$exists": True}}, [{"$set": {stamp: earlier}}])

    return Records(store=MongoStore(db), tickets=MongoTickets(db), locks=MongoLocks(db), pass_time=pass_time)


class EachRecords:
    """Gives a suite of ``Store``, ``Tickets`` or ``Locks`` each implementation in turn."""

    @pytest.fixture(params=["memory", "mongo"])
    def records(self, request: pytest.FixtureRequest) -> Records:
        return in_memory() if request.param == "memory" else on_mongo(request.getfixturevalue("db"))
