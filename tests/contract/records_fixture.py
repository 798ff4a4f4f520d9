"""Store, tickets and locks in memory and on MongoDB, with time that a test can let pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from attrs import frozen
from pymongo.database import Database

from migronaut.core.ports import Locks, Owner, Pass, Store, Tickets
from migronaut.core.state import BackgroundState, Partition, Scope, Spec, Status
from migronaut.memory import MemoryLocks, MemoryServer, MemoryStore, MemoryTickets
from migronaut.mongo.locks import MongoLocks
from migronaut.mongo.store import MongoStore
from migronaut.mongo.tickets import MongoTickets

NAME = "0001_orders.py"
WORK = Pass(background=NAME, generation=1, plan="plan")
ANN = Owner(name="ann", host="box", pid=1)


@frozen(kw_only=True)
class Records:
    """The three ports over one place, and its clock.

    Args:
        pass_time: Let the server's time go on by so many seconds.
    """

    store: Store
    tickets: Tickets
    locks: Locks
    pass_time: Callable[[float], None]


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


@pytest.fixture(params=["memory", "mongo"])
def records(request: pytest.FixtureRequest) -> Records:
    """Each implementation in turn."""
    return in_memory() if request.param == "memory" else on_mongo(request.getfixturevalue("db"))


def state(name: str = NAME, **changes: Any) -> BackgroundState:
    """A registered migration."""
    at = datetime(2026, 1, 1)
    told: dict[str, Any] = {
        "name": name,
        "registration": "r",
        "status": Status.PENDING,
        "checksum": "sha256-1:00",
        "spec": Spec(collection="orders", filter={"a.b": {"$exists": False}, "$or": [{"x": 1}, {"x": None}]}),
        "registered_at": at,
        "updated_at": at,
    }
    return BackgroundState(**(told | changes))


def partition(seq: int, *, estimate: int = 10) -> Partition:
    """A partition of ``WORK``."""
    return Partition(
        id=f"p{seq}",
        background=NAME,
        generation=WORK.generation,
        plan=WORK.plan,
        seq=seq,
        scope=Scope(bracket="number"),
        estimate=estimate,
    )
