"""The engine on the memory ports: interleavings and refusals that are forced at a point, without a server or a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from engine_kit import TO_SHIPPING, GivenCatalog, assert_migrated_once, at, old, orders, piped
from migronaut.core.ports import Condition, Owner, Pass, UnavailableError, WriteTooSlowError
from migronaut.core.state import Direction, Partition, Scope, Status
from migronaut.engine import Engine
from migronaut.engine.drive import drive, drive_all
from migronaut.engine.operator.registering import register
from migronaut.engine.operator.status import BackgroundStatus
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent
from migronaut.engine.work import current_pass
from migronaut.memory import FakeClock, MemoryCollection, MemoryServer
from migronaut.testing import MemoryEngine

NAME = "a.py"
VICTIM = 2
OWNER = Owner(name="lane", host="here", pid=1)
Victim = Callable[[MemoryCollection], object]


def memory(*, count: int = 5, transactions: bool = True, **settings: Any) -> MemoryEngine:
    engine = MemoryEngine(
        migrations={NAME: orders(**settings)}, server=MemoryServer(clock=FakeClock(), transactions=transactions)
    )
    engine.server.collection("orders").insert(*(old(number, rev=1) for number in range(count)))
    engine.register(NAME)
    return engine


def documents(engine: MemoryEngine) -> dict[Any, dict[str, Any]]:
    return {doc["_id"]: doc for doc in engine.server.collection("orders").find()}


def migrated_beside(
    engine: MemoryEngine, point: str, write: Victim
) -> tuple[BackgroundStatus, dict[Any, dict[str, Any]]]:
    """What became of the migration and its documents when the application wrote at a point."""
    collection = engine.server.collection("orders")
    engine.server.interrupt = at(point, lambda: write(collection))
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    found = documents(engine)
    assert_migrated_once(found)
    return status, found


def update(collection: MemoryCollection) -> object:
    return collection.update(VICTIM, {"$inc": {"hits": 1, "rev": 1}})


def delete(collection: MemoryCollection) -> object:
    return collection.delete(VICTIM)


def replace_by_old(collection: MemoryCollection) -> object:
    return collection.replace(VICTIM, old(VICTIM, hits=1, rev=7))


@pytest.mark.parametrize("write", [update, replace_by_old, delete])
@pytest.mark.parametrize(
    "point", ["documents.read", "documents.write_same.compared", "documents.write_same.before-commit"]
)
def test_a_write_before_the_commit_is_kept(point: str, write: Victim) -> None:
    engine = memory()
    status, found = migrated_beside(engine, point, write)
    gone = write is delete
    assert (len(found), status.totals.migrated, status.totals.skipped) == (5 - gone, 5 - gone, gone)
    assert gone or found[VICTIM]["hits"] == 1
    assert (status.totals.scanned, status.totals.retried) == (5, not gone)
    assert status.totals.txn_retries == (point != "documents.read")


@pytest.mark.parametrize("write", [update, replace_by_old, delete])
@pytest.mark.parametrize(
    "point", ["documents.read", "documents.write_guarded.statement", "documents.write_guarded.written"]
)
def test_with_the_revision_guard_a_write_that_bumps_is_kept(point: str, write: Victim) -> None:
    engine = memory(transactions=False, revision_field="rev")
    _, found = migrated_beside(engine, point, write)
    assert write is delete or found[VICTIM]["hits"] == 1


def test_a_document_that_conflicts_with_every_transaction_is_stepped_over() -> None:
    """The others of its batch are written in this pass, and it by the next one."""
    engine = memory(count=8)
    collection = engine.server.collection("orders")

    def interrupt(point: str) -> None:
        if point == "documents.write_same.compared" and engine.server.states[NAME].pass_number == 1:
            # Written, and yet the same bytes as before.
            collection.update(VICTIM, {"$inc": {"hits": 1}})
            collection.update(VICTIM, {"$inc": {"hits": -1}})

    engine.server.interrupt = interrupt
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert_migrated_once(documents(engine))
    assert status.pass_number == 2
    assert (status.totals.migrated, status.totals.conflicts, status.totals.scanned) == (8, 1, 9)


def test_a_lane_that_lost_its_lease_writes_nothing_more() -> None:
    """A lane that slept for an hour: its partition was reclaimed, its late transaction commits nothing."""
    engine = memory(count=30)
    store = engine.engine.ports.store

    def take_away() -> None:
        assert store.drop_leases(NAME) == 1

    engine.server.interrupt = at("documents.write_same.compared", take_away, arrival=2)
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert_migrated_once(documents(engine))
    assert (status.totals.migrated, status.totals.scanned) == (30, 30)


def test_a_lane_that_finds_all_slots_taken_does_not_sleep_on_them() -> None:
    """It may only have been a moment late; the lease of the other lasts a minute, its work may not."""
    engine = memory(count=30)
    server, store = engine.server, engine.engine.ports.store
    server.collection("orders").insert(old("a text"))  # a second partition
    taken: list[Partition] = []
    came_late: list[bool] = []

    def interrupt(point: str) -> None:
        server.interrupt = None
        if point == "store.claim" and not came_late:
            came_late.append(True)
            other = Owner(name="other", host="there", pid=2)
            claim = store.claim(current_pass(server.states[NAME]), owner=other, slots=1, ttl=60)
            assert isinstance(claim, Partition)
            taken.append(claim)
        elif point == "locks.acquire" and taken:
            assert store.release(taken.pop())
        server.interrupt = interrupt

    server.interrupt = interrupt
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert status.totals.migrated == 31
    assert engine.clock.monotonic() < 5


@pytest.mark.parametrize("point", ["store.claim", "store.load", "documents.read", "documents.write_same.before-commit"])
def test_a_short_outage_is_not_counted_on_the_partition(point: str) -> None:
    engine = memory(count=30)

    def away() -> None:
        raise UnavailableError("no primary")

    engine.server.interrupt = at(point, away, arrival=2)
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert (status.totals.migrated, status.totals.scanned, status.totals.slices) == (30, 30, 1)
    assert_migrated_once(documents(engine))


def test_an_outage_of_minutes_ends_the_run_and_loses_nothing() -> None:
    engine = memory(count=30)
    away = False

    def interrupt(point: str) -> None:
        nonlocal away
        away = away or point == "documents.write_same.committed"
        if away:
            raise UnavailableError("no primary")

    engine.server.interrupt = interrupt
    with pytest.raises(UnavailableError):
        engine.run(NAME)
    assert engine.clock.monotonic() > 60
    engine.server.interrupt = None
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert (status.totals.migrated, status.totals.scanned) == (30, 30)
    assert_migrated_once(documents(engine))


def test_a_coordinator_killed_between_completing_and_tidying_leaves_no_partition() -> None:
    """Found by the simulation (seed 46): the next coordinator finds the migration completed, and tidies up."""
    engine = memory()

    class Killed(BaseException):
        """No code of ours may catch it."""

    def kill() -> None:
        raise Killed

    engine.server.interrupt = at("store.drop_before", kill, arrival=2)
    with pytest.raises(Killed):
        engine.run(NAME)
    assert engine.server.states[NAME].status is Status.COMPLETED
    assert engine.server.partitions
    engine.server.interrupt = None
    engine.run(NAME)
    assert not engine.server.partitions


def test_a_migration_that_must_wait_does_not_hold_up_the_others() -> None:
    """The second waits for the first, which fails; the third has nothing to do with them."""
    memory = MemoryEngine(migrations={"1_a.py": orders(migrate=broken), "3_c.py": orders(collection="others")})
    memory.server.collection("orders").insert(old(1))
    memory.server.collection("others").insert(old(1))
    for name in ("1_a.py", "3_c.py"):
        memory.register(name)
    blocked = memory.engine.ports.store.load("3_c.py")
    assert blocked is not None
    waiting = evolve(blocked, name="2_b.py", status=Status.BLOCKED, requires=("1_a.py",))
    assert memory.engine.ports.store.insert(waiting)
    names = ("1_a.py", "2_b.py", "3_c.py")
    drive_all(memory.engine, names, owner=OWNER, stop=StopEvent())
    found = [memory.engine.ports.store.load(name) for name in names]
    assert [state.status for state in found if state] == [Status.FAILED, Status.BLOCKED, Status.COMPLETED]


def test_what_a_process_did_itself_is_counted_also_in_slices_that_raised() -> None:
    """One of the five documents was done by another process, before."""
    calls: list[int] = []

    def many(docs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        calls.append(len(docs))
        if len(calls) in {2, 5}:
            raise ValueError("once in a while")
        return [doc | {"shipping": 1} for doc in docs]

    engine = memory(migrate=None, migrate_many=many, batch_size=1)
    engine.engine.coordinate(NAME, owner=OWNER, stop=StopEvent())
    other = engine.engine.run_slice(NAME, owner=OWNER, stop=StopEvent(), slice_length=0.001)
    driven = drive_all(engine.engine, [NAME], owner=OWNER, stop=StopEvent())
    assert (other.counters.migrated, driven.own[NAME].migrated, driven.held) == (1, 4, {})
    assert engine.server.states[NAME].totals.migrated == 5


def test_what_a_transform_of_many_raises_is_told_without_the_document(caplog: pytest.LogCaptureFixture) -> None:
    def many(docs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise ValueError(f"bad document {docs}")

    memory = MemoryEngine(migrations={NAME: orders(migrate=None, migrate_many=many, max_slice_failures=1)})
    memory.server.collection("orders").insert(old("SECRET-ID"))
    memory.register(NAME)
    assert memory.run(NAME).status is Status.FAILED
    assert "ValueError at line" in caplog.text
    assert "SECRET" not in caplog.text


def broken(doc: dict[str, Any]) -> dict[str, Any]:
    raise KeyError(doc["_id"])


def test_a_pause_is_kept_between_the_slices_too() -> None:
    engine = memory(count=25, pause=60, slice_length=30)
    started = engine.server.clock.monotonic()
    assert engine.run(NAME).status == Status.COMPLETED
    assert engine.server.clock.monotonic() - started >= 120


def slow_at(point: str, arrivals: set[int]) -> Callable[[str], None]:
    """The server gives up at some arrivals at a point."""
    seen = 0

    def reach(reached: str) -> None:
        nonlocal seen
        if reached == point:
            seen += 1
            if seen in arrivals:
                raise WriteTooSlowError("slow")

    return reach


def piped_memory(*, count: int = 8, **settings: Any) -> MemoryEngine:
    engine = MemoryEngine(migrations={NAME: piped(**settings)}, server=MemoryServer(transactions=False))
    engine.server.collection("orders").insert(*(old(number) for number in range(count)))
    engine.register(NAME)
    return engine


def test_a_pipeline_that_is_too_slow_is_given_fewer_documents_and_nothing_is_counted_twice() -> None:
    engine = piped_memory()
    engine.server.interrupt = slow_at("documents.rewrite.document", {4, 6})
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert (status.totals.scanned, status.totals.migrated, status.totals.conflicts) == (8, 8, 0)
    assert status.left_out == 0
    assert_migrated_once(documents(engine))


def test_a_document_that_is_too_slow_alone_is_left_to_the_next_pass_and_not_blamed() -> None:
    engine = piped_memory(count=2)
    engine.server.interrupt = slow_at("documents.rewrite.document", {1, 2})
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    assert (status.totals.migrated, status.totals.conflicts, status.left_out) == (2, 1, 0)
    assert status.pass_number == 2
    assert_migrated_once(documents(engine))


def test_a_document_that_comes_into_a_range_and_offends_is_not_blamed_on_another() -> None:
    engine = piped_memory(pipeline=[*TO_SHIPPING, {"$set": {"hits": {"$add": ["$hits", 0]}}}], max_document_errors=1)
    collection = engine.server.collection("orders")
    late = old(2.5, hits="text")
    engine.server.interrupt = at("documents.read", lambda: collection.insert(late))
    status = engine.run(NAME)
    assert status.status == Status.COMPLETED
    state = engine.engine.ports.store.load(NAME)
    assert state is not None
    assert state.bad_ids == (2.5,)
    assert status.totals.migrated == 8


def test_the_drift_poll_tidies_up_after_a_planner_that_was_lost() -> None:
    engine = memory()
    engine.run(NAME)
    store = engine.engine.ports.store
    state = store.load(NAME)
    assert state is not None
    lost = Pass(background=NAME, generation=state.generation, plan="lost")
    scope = Scope(bracket="number")
    store.add_partitions([Partition(id="lost-0", background=NAME, generation=1, plan="lost", seq=0, scope=scope)])
    assert store.partitions(lost) != ()
    engine.engine.verify()
    assert store.partitions(lost) == ()


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (Condition(sharded=True), "This is a sharded cluster: the values of _id must be unique"),
        (Condition(exists=False), "The collection orders does not exist (yet); is its name right?"),
    ],
)
def test_what_a_collection_is_like_is_told_when_a_migration_is_registered(condition: Condition, said: str) -> None:
    engine = MemoryEngine(migrations={NAME: orders()})
    engine.server.collection("orders").condition = condition
    ports = engine.engine.ports
    found = register(ports, NAME, direction=Direction.FORWARD, registration="r", request=Request())
    assert said in str(found.advice)


@pytest.mark.parametrize("condition", [Condition(kind="view"), Condition(capped=True)])
def test_a_collection_that_becomes_unfit_fails_the_migration_in_memory_too(condition: Condition) -> None:
    engine = memory()
    engine.server.collection("orders").condition = condition
    assert engine.run(NAME).status == Status.FAILED
    assert str(engine.server.states[NAME].last_error).startswith("The migration cannot be done here: orders is a ")


@pytest.mark.parametrize("order", ["abc", "cba", "cab"])
def test_a_chain_behind_a_failed_one_holds_nobody_up(order: str) -> None:
    """c requires b, which requires a, which fails."""
    engine = MemoryEngine(migrations={})
    catalog = GivenCatalog()
    catalog.give("a", orders(migrate=broken))
    catalog.give("b", orders(), requires=("a",))
    catalog.give("c", orders(), requires=("b",))
    ports = evolve(engine.engine.ports, catalog=catalog)
    engine.server.collection("orders").insert(old(1))
    for name in "abc":
        register(ports, name, direction=Direction.FORWARD, registration=name, request=Request())
    drive_all(Engine(ports), list(order), owner=OWNER, stop=StopEvent())
    found = {state.name: state.status for state in ports.store.states()}
    assert found == {"a": Status.FAILED, "b": Status.BLOCKED, "c": Status.BLOCKED}


def test_a_checkpoint_without_writes_that_is_too_slow_is_tried_again_and_nothing_is_halved() -> None:
    engine = memory(migrate=broken, max_document_errors=1000)
    refusals = iter(range(3))

    def reach(point: str) -> None:
        if point == "store.checkpoint" and next(refusals, None) is not None:
            raise WriteTooSlowError("the majority is away")

    engine.server.interrupt = reach
    status = engine.run(NAME)
    assert status.status is Status.COMPLETED
    assert status.left_out == status.totals.failed == 5
    assert next(refusals, None) is None


def test_a_checkpoint_that_is_never_written_ends_with_the_stop() -> None:
    engine = memory(migrate=broken, max_document_errors=1000)
    stop = StopEvent()
    tries = 0

    def reach(point: str) -> None:
        nonlocal tries
        if point == "store.checkpoint":
            tries += 1
            if tries == 5:
                stop.set("shutdown")
            raise WriteTooSlowError("the majority is away")

    engine.server.interrupt = reach
    assert drive(engine.engine, NAME, owner=OWNER, stop=stop) is None
    assert tries <= 6


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_lane_goes_on_where_a_failover_has_put_its_partition_back(pipeline: bool) -> None:
    """Documents and checkpoint of the second batch are undone together while the lane is at the third."""
    settings: dict[str, Any] = {"pipeline": TO_SHIPPING, "migrate": None} if pipeline else {}
    engine = memory(count=6, batch_size=2, **settings)
    server, collection = engine.server, engine.server.collection("orders")
    begun, committed = ("rewritten", "rewrite_fenced") if pipeline else ("compared", "write_same")
    kept: list[Any] = []

    def after_the_first() -> None:
        kept.extend((dict(server.partitions), collection.find()))

    def failover() -> None:
        server.partitions = kept[0]
        for document in kept[1]:
            collection.replace(document["_id"], document)
        raise UnavailableError("not primary any more")

    first = at(f"documents.{committed}.committed", after_the_first)
    third = at(f"documents.{committed}.{begun}", failover, arrival=3)

    def reach(point: str) -> None:
        first(point)
        third(point)

    server.interrupt = reach
    status = engine.run(NAME)
    assert (status.status, status.pass_number) == (Status.COMPLETED, 1)
    assert (status.totals.scanned, status.totals.migrated) == (6, 6)
    assert_migrated_once(documents(engine))
