"""Reading ahead: the next batch is made ready while one is written, by the lane itself, and is dropped with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.database import Database

from engine_kit import Document, Rig, assert_migrated_once, at, orders, seeded, to_shipping
from migronaut.core.lane import Outcome
from migronaut.core.ports import UnavailableError
from migronaut.core.state import Partitioning, Status
from migronaut.engine.stopping import StopEvent

PATIENCE = 20


class Watched:
    """A migration that notes who calls it, and whether two do at a time."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.calls = 0
        self.most = 0
        self._inside = 0
        self._lock = threading.Lock()

    def __call__(self, doc: Document) -> Document:
        with self._lock:
            self._inside += 1
            self.calls += 1
            self.most = max(self.most, self._inside)
            self.threads.add(threading.get_ident())
        try:
            return to_shipping(doc)
        finally:
            with self._lock:
                self._inside -= 1


def both(*interrupts: Callable[[str], None]) -> Callable[[str], None]:
    def reach(point: str) -> None:
        for interrupt in interrupts:
            interrupt(point)

    return reach


def test_the_next_batch_is_begun_only_when_the_writing_waits_for_the_server(db: Database[Any]) -> None:
    """Two threads that both compute only get into each other's way."""
    seeded(db, 50)
    reached: list[str] = []
    rig = Rig(db=db)
    rig.interrupt = reached.append
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    order = [point for point in reached if point in {"documents.read", "documents.write_same.compared"}]
    assert order[:9] == ["documents.read", *["documents.write_same.compared", "documents.read"] * 4]
    assert_migrated_once(rig.documents())


@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_the_next_batch_is_read_while_one_is_written(db: Database[Any], guard: str) -> None:
    seeded(db, 30)
    written = "documents.write_same.compared" if guard == "snapshot" else "documents.write_guarded.written"
    second = threading.Event()
    seen: list[bool] = []
    rig = Rig(db=db)
    rig.interrupt = both(
        at("documents.read", second.set, arrival=2), at(written, lambda: seen.append(second.wait(PATIENCE)))
    )
    rig.register(orders(guard=guard))
    assert rig.run() is Status.COMPLETED
    assert seen == [True]
    assert_migrated_once(rig.documents())
    assert rig.totals.migrated == 30


@pytest.mark.parametrize("point", ["documents.write_same.compared", "documents.write_same.committed"])
def test_functions_are_called_in_the_lane_alone_and_never_twice_at_a_time(db: Database[Any], point: str) -> None:
    """Also when what was made ready is dropped, because the batch before it must be done again."""
    seeded(db, 100)

    def away() -> None:
        raise UnavailableError("a failover")

    watched = Watched()
    rig = Rig(db=db)
    rig.interrupt = at(point, away, arrival=2)
    rig.register(orders(migrate=watched))
    assert rig.run() is Status.COMPLETED
    assert watched.threads == {threading.get_ident()}
    assert watched.most == 1
    # What was committed is not done again, so that what was made ready behind it is still good.
    assert (watched.calls > 100) == point.endswith("compared")
    assert_migrated_once(rig.documents())


def test_what_a_function_raises_for_the_next_batch_leaves_the_one_before_written(db: Database[Any]) -> None:
    seeded(db, 30)

    def results(docs: list[Document]) -> list[Document]:
        if docs[0]["_id"] == 10:
            raise OSError("the lookup service is away")
        return [to_shipping(doc) for doc in docs]

    rig = Rig(db=db)
    rig.register(orders(migrate=None, migrate_many=results, max_slice_failures=2))
    rig.coordinate()
    result = rig.slice()
    assert result.outcome is Outcome.RAISED
    assert isinstance(result.error, OSError)
    assert db.orders.count_documents({"migrations": 1}) == 10
    assert rig.totals.migrated == 10
    assert rig.status().leases == ()


def test_a_batch_that_is_ready_when_a_lane_stops_is_dropped(db: Database[Any]) -> None:
    seeded(db, 30)
    stop = StopEvent()
    rig = Rig(db=db)
    rig.interrupt = at("documents.write_same.compared", lambda: stop.set("shutdown"))
    rig.register(orders())
    assert rig.run(stop=stop) is None
    assert db.orders.count_documents({"migrations": 1}) == 10
    assert rig.status().leases == ()
    assert not [thread for thread in threading.enumerate() if thread.name == "migronaut-writer"]
    rig.interrupt = lambda point: None
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())


def test_nothing_is_read_ahead_before_a_pause(db: Database[Any]) -> None:
    seeded(db, 20)
    points: list[str] = []
    rig = Rig(db=db)
    rig.interrupt = points.append
    rig.register(orders(pause=0.01))
    assert rig.run() is Status.COMPLETED
    wanted = [point for point in points if point in ("documents.read", "documents.write_same.committed")]
    assert wanted == ["documents.read", "documents.write_same.committed"] * 2 + ["documents.read"]


def test_an_interrupt_ends_all_lanes_at_their_next_batch(db: Database[Any]) -> None:
    """Ctrl-C in an application that has no handler for it: it reaches the thread that waits for the lanes."""
    seeded(db, 1000)
    rig = Rig(db=db)
    main = threading.main_thread().ident
    assert main is not None
    rig.interrupt = at("documents.write_same.committed", lambda: signal.pthread_kill(main, signal.SIGINT), arrival=3)
    rig.register(orders(max_parallel=4, pause=0.05, partitions=Partitioning(min_documents=100)))
    with pytest.raises(KeyboardInterrupt):
        rig.run(lanes=4)
    assert db.orders.count_documents({"migrations": 1}) < 500
    assert rig.status().leases == ()
