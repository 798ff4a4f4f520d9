"""How states, partitions, tickets and locks are kept on a real server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from bson import DBRef, Int64, MaxKey, ObjectId, Regex, encode
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from migronaut.core.ports import Checkpoint, Owner, Pass
from migronaut.core.state import SCHEMA, BackgroundState, Counters, Cursor, Partition, Plan, Scope, Spec, Status
from migronaut.core.tickets import Role
from migronaut.errors import BackgroundConflictError, LeaseLostError, StateInvalidError
from migronaut.mongo.locks import MongoLocks
from migronaut.mongo.store import MongoStore
from migronaut.mongo.tickets import MongoTickets
from migronaut.versioning import CODEC

NAME = "0001_orders.py"
WORK = Pass(background=NAME, generation=1, plan="plan")
ANN = Owner(name="ann", host="box", pid=1)
STATES = "_migronaut_background"
PARTITIONS = "_migronaut_background_partitions"


def state(**changes: Any) -> BackgroundState:
    at = datetime(2026, 1, 1)
    spec = Spec(collection="orders", filter={"a": 1})
    told: dict[str, Any] = {"name": NAME, "registration": "r", "status": Status.RUNNING, "checksum": "c", "spec": spec}
    return BackgroundState(**(told | {"registered_at": at, "updated_at": at} | changes))


def partition(seq: int = 0, **changes: Any) -> Partition:
    told: dict[str, Any] = {"id": f"p{seq}", "seq": seq, "scope": Scope(bracket="string"), "estimate": 10}
    return Partition(background=NAME, generation=1, plan="plan", **(told | changes))


def claimed(store: MongoStore) -> Partition:
    found = store.claim(WORK, owner=ANN, slots=4, ttl=60)
    assert isinstance(found, Partition)
    return found


# ------------------------------------------------------------------ when and where


def test_nothing_is_created_before_the_first_write(db: Database[Any]) -> None:
    store, tickets, locks = MongoStore(db), MongoTickets(db), MongoLocks(db)
    assert (store.load(NAME), store.states(), store.leases(NAME)) == (None, (), ())
    assert (tickets.of(NAME), tickets.overdue(), locks.holder("migronaut")) == ((), (), None)
    assert db.name not in db.client.list_database_names()


def test_the_names_follow_the_setting(db: Database[Any]) -> None:
    store = MongoStore(db, background_collection="moves")
    store.insert(state())
    store.add_partitions([partition()])
    store.tick("heal", interval=1)
    MongoTickets(db, background_collection="moves").open(NAME, Role.COORDINATOR)
    assert set(db.list_collection_names()) == {"moves", "moves_partitions", "moves_clock", "moves_tickets"}
    assert [each.name for each in store.states()] == [NAME]


def test_two_leases_in_one_slot_are_impossible_by_the_schema(db: Database[Any]) -> None:
    store = MongoStore(db)
    store.add_partitions([partition(0), partition(1)])
    held = claimed(store)
    assert held.lease is not None
    with pytest.raises(DuplicateKeyError):
        db[PARTITIONS].update_one({"lease": {"$exists": False}}, {"$set": {"lease.slot": held.lease.slot}})


def test_overdue_tickets_are_found_by_an_index(db: Database[Any]) -> None:
    tickets = MongoTickets(db)
    for lane in range(20):
        tickets.open(NAME, Role.LANE, lane=lane)
    plan = db["_migronaut_background_tickets"].find(tickets._overdue).sort("due").explain()
    assert plan["executionStats"]["totalDocsExamined"] == 0


# ------------------------------------------------------------------ what is stored comes back


@pytest.mark.parametrize(
    "filter_",
    [
        {"$or": [{"a.b": {"$exists": False}}, {"c": None}]},
        {"$expr": {"$gt": ["$a", "$$NOW"]}},
        {"n": Int64(1), "x": 1.0, "at": datetime(2026, 1, 1), "id": ObjectId(b"0" * 12)},
        {"ref": DBRef("other", 1), "key": UUID(int=7), "word": Regex("^a", "i")},
        {"b": {"z": 1, "a": 2}, "$nor": [{"t": MaxKey()}]},
    ],
)
def test_a_filter_keeps_its_operators_types_and_order(db: Database[Any], filter_: dict[str, Any]) -> None:
    store = MongoStore(db)
    store.insert(state())
    wanted = evolve(state(), spec=Spec(collection="orders", filter=filter_))
    saved = store.save(wanted)
    assert saved is not None
    found = store.load(NAME)
    assert found is not None
    assert found == saved
    kept = found.spec.filter
    assert kept is not None
    assert encode(dict(kept), codec_options=CODEC) == encode(filter_, codec_options=CODEC)


@pytest.mark.parametrize("id_", [None, 1, 1.5, Int64(1), "$a", {"$x": {"b": 1, "a": 2}}, UUID(int=1), b"x", True])
def test_an_id_of_any_type_is_a_cursor_a_bound_and_a_bad_id(db: Database[Any], id_: Any) -> None:
    store = MongoStore(db)
    scope = Scope(bracket="object", lower=id_, upper=id_, bounded_below=True, bounded_above=True)
    store.add_partitions([partition(scope=scope)])
    store.checkpoint(claimed(store), Checkpoint(cursor=Cursor(last_id=id_), bad_ids=(id_,)))
    (found,) = store.partitions(WORK)
    assert found.cursor is not None
    wanted = encode({"": [id_, id_, id_, id_]}, codec_options=CODEC)
    kept = [found.scope.lower, found.scope.upper, found.cursor.last_id, found.bad_ids[0]]
    assert encode({"": kept}, codec_options=CODEC) == wanted


def test_a_save_is_stamped_with_the_time_of_the_server(db: Database[Any]) -> None:
    store = MongoStore(db)
    store.insert(state())
    before = store.now()
    plan = Plan(token="t", method="single", estimate=1, match="m", made_at=before)
    saved = store.save(state(plan=plan))
    assert saved is not None
    assert before <= saved.updated_at <= store.now()
    assert (saved.registered_at, saved.plan) == (datetime(2026, 1, 1), plan)


# ------------------------------------------------------------------ damaged and newer records


def test_a_field_that_is_not_ours_is_refused_without_its_value(db: Database[Any]) -> None:
    store = MongoStore(db)
    store.insert(state())
    db[STATES].update_one({"_id": NAME}, {"$set": {"extra": "secret"}})
    with pytest.raises(StateInvalidError) as raised:
        store.load(NAME)
    assert "secret" not in raised.value.message
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("damage", [{"revision": "1"}, {"revision": True}, {"status": "odd"}, {"updated_at": 5}])
def test_a_damaged_state_is_refused(db: Database[Any], damage: dict[str, Any]) -> None:
    store = MongoStore(db)
    store.insert(state())
    db[STATES].update_one({"_id": NAME}, {"$set": damage})
    with pytest.raises(StateInvalidError):
        store.load(NAME)


def test_a_state_of_a_newer_release_is_read_as_far_as_it_is_known_and_never_written(db: Database[Any]) -> None:
    store = MongoStore(db)
    store.insert(state(description="kept"))
    newer = {"schema": SCHEMA + 1, "status": "hibernating", "spec.mood": "new", "extra": 1, "plan": "another shape"}
    db[STATES].update_one({"_id": NAME}, {"$set": newer})
    found = store.load(NAME)
    assert found is not None
    assert (found.schema, found.description, found.plan, found.spec.collection) == (SCHEMA + 1, "kept", None, "orders")
    assert found.status is Status.PAUSED
    with pytest.raises(BackgroundConflictError):
        store.save(found)
    assert store.save(state()) is None
    stored = db[STATES].find_one({"_id": NAME})
    assert stored is not None
    assert (stored["extra"], stored["status"]) == (1, "hibernating")


# ------------------------------------------------------------------ fencing


def test_a_checkpoint_inside_a_transaction_that_aborts_never_was(client: MongoClient[Any], db: Database[Any]) -> None:
    store = MongoStore(db)
    store.add_partitions([partition()])
    held = claimed(store)
    with client.start_session() as session:
        session.start_transaction()
        store.checkpoint(held, Checkpoint(counters=Counters(migrated=5)), session=session)
        assert store.partitions(WORK)[0].counters.migrated == 0
        session.abort_transaction()
    assert store.partitions(WORK)[0].counters.migrated == 0


def test_a_token_is_what_counts_not_the_owner(db: Database[Any]) -> None:
    store = MongoStore(db)
    store.add_partitions([partition()])
    held = claimed(store)
    assert held.lease is not None
    forged = evolve(held, lease=evolve(held.lease, token="forged"))
    for impostor in (forged, evolve(held, lease=None)):
        with pytest.raises(LeaseLostError):
            store.checkpoint(impostor, Checkpoint(done=True))
        assert not store.release(impostor)
    assert store.partitions(WORK)[0].lease is not None


def test_a_clock_far_in_the_future_does_not_stop_the_beat(db: Database[Any]) -> None:
    store = MongoStore(db)
    assert store.tick("heal", interval=30)
    db["_migronaut_background_clock"].update_one({}, {"$set": {"at": store.now() + timedelta(days=9999)}})
    assert store.tick("heal", interval=30)
    assert not store.tick("heal", interval=30)


# ------------------------------------------------------------------ holders of locks


def test_who_holds_a_lock_is_told_and_can_be_overruled(db: Database[Any]) -> None:
    locks = MongoLocks(db)
    nonce = locks.acquire("migronaut", owner=ANN, ttl=60)
    assert nonce is not None
    holder = locks.holder("migronaut")
    assert holder is not None
    assert (holder.owner, holder.host, holder.pid) == ("ann", "box", 1)
    assert holder.since is not None
    assert holder.expires_at == holder.since + timedelta(seconds=60)
    assert nonce not in repr(holder)
    assert locks.force_release("migronaut") == holder
    assert locks.force_release("migronaut") is None
    assert not locks.renew("migronaut", nonce)


@pytest.mark.parametrize("left", [{}, {"locked": True}, {"locked_at": "yesterday", "nonce": 1}])
def test_a_record_of_another_tool_blocks_nobody_for_ever(db: Database[Any], left: dict[str, Any]) -> None:
    db["_migronaut_locks"].insert_one({"_id": "migronaut", **left})
    locks = MongoLocks(db)
    holder = locks.holder("migronaut")
    assert holder is not None
    assert (holder.owner, holder.expires_at) == ("unknown", None)
    assert locks.acquire("migronaut", owner=ANN, ttl=60) is not None
