"""A process that dies inside its transaction leaves documents locked; whoever takes its lease over unlocks them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import LANES, NAME, Rig, assert_migrated_once, old, orders
from engine_lane import LEASE_TTL, start
from migronaut.core.state import Partition, Status
from migronaut.engine.work import current_pass

pytestmark = pytest.mark.chaos

PROMPT = 10.0
"""Seconds, far below the server's own limit for open transactions, which is a minute."""


def lost_inside_a_transaction(db: Database[Any], uri: str) -> Rig:
    """The first ten documents are updated and not committed; nobody is there to go on."""
    db.orders.insert_many([old(number) for number in range(45)])
    rig = Rig(db=db, lease_ttl=LEASE_TTL)
    rig.register(orders())
    process = start(uri, db.name, {}, point="documents.write_same.before-commit")
    assert process.wait(30) == -signal.SIGKILL
    return rig


def next_lane(rig: Rig) -> None:
    assert rig.run() is Status.COMPLETED


def operator(rig: Rig) -> None:
    assert rig.ports.store.drop_leases(NAME) == 1


@pytest.mark.parametrize("taken_over_by", [next_lane, operator])
def test_documents_of_a_dead_lane_are_free_as_soon_as_its_lease_is_taken(
    client: MongoClient[Any], db: Database[Any], mongo_uri: str, taken_over_by: Callable[[Rig], None]
) -> None:
    name = "transactionLifetimeLimitSeconds"
    assert client.admin.command({"getParameter": 1, name: 1})[name] > 2 * PROMPT
    rig = lost_inside_a_transaction(db, mongo_uri)
    started = time.monotonic()
    taken_over_by(rig)
    db.orders.update_one({"_id": 3}, {"$inc": {"hits": 1}})
    assert time.monotonic() - started < PROMPT
    rig.run()
    documents = rig.documents()
    assert_migrated_once(documents)
    assert documents[3]["hits"] == 1
    assert rig.totals.conflicts == 0


def test_a_lease_that_names_no_session_is_taken_over_all_the_same(db: Database[Any]) -> None:
    db.orders.insert_many([old(number) for number in range(45)])
    rig = Rig(db=db)
    rig.register(orders())
    rig.coordinate()
    pass_ = current_pass(rig.state)
    assert isinstance(rig.ports.store.claim(pass_, owner=rig.owner, slots=1, ttl=60), Partition)
    db[LANES].update_many({"lease": {"$exists": True}}, {"$set": {"lease.session": "tampered"}})
    assert rig.ports.store.drop_leases(NAME) == 1
    assert rig.run() is Status.COMPLETED
