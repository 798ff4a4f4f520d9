"""Lanes in several processes: no more of them than ``max_parallel``, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from engine_kit import LANES, Rig, assert_migrated_once, old, orders
from engine_lane import start
from migronaut.core.state import Status

SETTINGS = {"batch_size": 20, "max_parallel": 4}
DOCUMENTS = 1000


def held(db: Database[Any]) -> list[dict[str, Any]]:
    """The leases of one instant: a snapshot, because a plain scan would see one given back and taken again twice."""
    with db.client.start_session(snapshot=True) as session:
        return [doc["lease"] for doc in db[LANES].find({"lease": {"$exists": True}}, {"lease": 1}, session=session)]


def test_two_processes_of_four_lanes_never_hold_more_than_four_leases(db: Database[Any], mongo_uri: str) -> None:
    db.orders.insert_many([old(number) for number in range(DOCUMENTS)])
    rig = Rig(db=db)
    rig.register(orders(**SETTINGS))
    processes = [start(mongo_uri, db.name, SETTINGS, lanes=4) for _ in range(2)]
    counts, slots, pids = set(), set(), set()
    while any(process.poll() is None for process in processes):
        leases = held(db)
        counts.add(len(leases))
        slots |= {lease["slot"] for lease in leases}
        pids |= {lease["pid"] for lease in leases}
    assert [process.wait() for process in processes] == [0, 0]
    assert max(counts) == 4
    assert slots == {0, 1, 2, 3}
    assert pids == {process.pid for process in processes}, "both must have worked"
    assert rig.status().status == Status.COMPLETED
    assert rig.totals.migrated == DOCUMENTS
    assert_migrated_once(rig.documents())


def test_the_server_itself_refuses_a_second_lease_of_a_slot(db: Database[Any]) -> None:
    db.orders.insert_many([old(number) for number in range(100)])
    rig = Rig(db=db)
    rig.register(orders(max_parallel=2, batch_size=10))
    rig.coordinate()
    one, other = db[LANES].find().limit(2)
    lease = {"background": one["background"], "lease": {"slot": 0, "token": "t"}}
    db[LANES].update_one({"_id": one["_id"]}, {"$set": lease})
    with pytest.raises(DuplicateKeyError):
        db[LANES].update_one({"_id": other["_id"]}, {"$set": lease})


def test_the_client_of_the_user_may_be_set_up_in_any_way(db: Database[Any], mongo_uri: str) -> None:
    """Its codec, read preference and write concern are not ours."""
    db.orders.insert_many([old(number) for number in range(50)])
    options = "&readPreference=secondaryPreferred&w=0&uuidRepresentation=javaLegacy&retryWrites=false&tz_aware=true"
    with MongoClient[dict[str, Any]](mongo_uri + options) as odd:
        rig = Rig(db=odd[db.name])
        rig.register(orders())
        assert rig.run() is Status.COMPLETED
        assert rig.totals.migrated == 50
    assert_migrated_once({doc["_id"]: doc for doc in db.orders.find()})
