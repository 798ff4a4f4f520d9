"""An application writes all documents in a loop while they are migrated: it loses nothing and notices nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.client_session import ClientSession
from pymongo.database import Database

from engine_kit import NAME, Document, Rig, assert_migrated_once, old, orders, piped, to_shipping
from migronaut.core.state import Partitioning, Status
from migronaut.engine.operator import controls
from migronaut.engine.states import Request

THREADS = 3
PER_THREAD = 60
SETTINGS: dict[str, Any] = {"batch_size": 20, "max_passes": 1000, "partitions": Partitioning(min_documents=20)}


def to_shipping_slowly(doc: Document) -> Document:
    """Half a millisecond a document, so that a batch is away from the database long enough to meet a write."""
    time.sleep(0.0005)
    return to_shipping(doc)


class Writer:
    """One thread of the application. It alone writes its documents, so it knows what must stand in each of them.

    Args:
        revisions: Bump ``rev`` at every write, as a user of the revision guard must.
    """

    def __init__(self, db: Database[Any], number: int, seed: int, *, revisions: bool) -> None:
        self.orders = db.orders
        self.audit = db.audit
        self.client = db.client
        self.random = random.Random(seed + number)
        self.revisions = revisions
        self.prefix = f"w{number}"
        self.made = 0
        self.known: dict[str, tuple[int, str]] = {}
        self.transactions = 0
        self.writes = 0
        for _ in range(PER_THREAD):
            self.insert()

    def step(self) -> None:
        """One write of a random kind, remembered once it is acknowledged."""
        kinds: list[Callable[[], None]] = [self.increment] * 4 + [self.find_and_increment] * 3
        kinds += [self.replace] * 3 + [self.delete, self.insert, self.insert]
        # Transactions need a replica set.
        kinds += [] if self.revisions else [self.transfer] * 2
        self.random.choice(kinds)()
        self.writes += 1

    def insert(self) -> None:
        self.made += 1
        id_ = f"{self.prefix}-{self.made:05d}"
        address = f"street {self.made}"
        self.orders.insert_one(self._shaped(id_, 0, address, 1))
        self.known[id_] = (0, address)

    def increment(self) -> None:
        id_ = self._any()
        assert self.orders.update_one({"_id": id_}, self._plus(1)).matched_count == 1
        self._remember(id_, 1)

    def find_and_increment(self) -> None:
        id_ = self._any()
        assert self.orders.find_one_and_update({"_id": id_}, self._plus(1)) is not None
        self._remember(id_, 1)

    def replace(self) -> None:
        """As an old or a new release of the application writes the whole document."""
        id_ = self._any()
        hits, _ = self.known[id_]
        address = f"moved {self.random.random()}"
        while True:
            revision = self.orders.find_one({"_id": id_}, {"rev": 1})["rev"] if self.revisions else 0
            guard = {"rev": revision} if self.revisions else {}
            new = self._shaped(id_, hits, address, revision + 1)
            if self.orders.replace_one({"_id": id_, **guard}, new).matched_count:
                self.known[id_] = (hits, address)
                return

    def delete(self) -> None:
        if len(self.known) > PER_THREAD // 2:
            id_ = self._any()
            assert self.orders.delete_one({"_id": id_}).deleted_count == 1
            del self.known[id_]

    def transfer(self) -> None:
        """Move hits from one document to another."""
        one, other = self.random.sample(sorted(self.known), 2)

        def body(session: ClientSession) -> None:
            self.orders.update_one({"_id": one}, self._plus(2), session=session)
            self.orders.update_one({"_id": other}, self._plus(-1), session=session)
            self.audit.insert_one({"from": other, "to": one}, session=session)

        with self.client.start_session() as session:
            session.with_transaction(body)
        self._remember(one, 2)
        self._remember(other, -1)
        self.transactions += 1

    def _any(self) -> str:
        return self.random.choice(sorted(self.known))

    def _plus(self, amount: int) -> Document:
        return {"$inc": {"hits": amount} | ({"rev": 1} if self.revisions else {})}

    def _remember(self, id_: str, amount: int) -> None:
        hits, address = self.known[id_]
        self.known[id_] = (hits + amount, address)

    def _shaped(self, id_: str, hits: int, address: str, revision: int) -> Document:
        common = {"_id": id_, "hits": hits} | ({"rev": revision} if self.revisions else {})
        if self.random.random() < 0.5:
            return common | {"address": address, "schema_version": 1}
        return common | {"shipping": {"address": address}, "schema_version": 2, "migrations": 1}


@contextmanager
def writing(writers: list[Writer], *, most: int) -> Iterator[threading.Event]:
    """All writers at work beside a block, for ``most`` writes each or until its end; the event says that all ended."""
    stop, ended = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def work(writer: Writer) -> None:
        try:
            while not stop.is_set() and writer.writes < most:
                writer.step()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(writer,), daemon=True) for writer in writers]
    waiter = threading.Thread(target=lambda: ([thread.join() for thread in threads], ended.set()), daemon=True)
    for thread in [*threads, waiter]:
        thread.start()
    try:
        yield ended
    finally:
        stop.set()
        waiter.join(60)
    assert not failures, f"the application got {failures[0]!r}"


def migrate_meanwhile(rig: Rig, writers: list[Writer], *, lanes: int, most: int) -> None:
    """Migrate again and again while the application writes, and once more when it is quiet."""
    with writing(writers, most=most) as ended:
        while not ended.is_set():
            assert rig.run(lanes=lanes) is Status.COMPLETED
            controls.retry(rig.ports, NAME, Request(), from_start=False)
    assert rig.run(lanes=lanes) is Status.COMPLETED


def assert_nothing_lost(rig: Rig, writers: list[Writer]) -> None:
    known = {id_: what for writer in writers for id_, what in writer.known.items()}
    found = rig.documents()
    assert_migrated_once(found)
    assert {id_: (doc["hits"], doc["shipping"]["address"]) for id_, doc in found.items()} == known
    assert rig.db.audit.count_documents({}) == sum(writer.transactions for writer in writers)


@pytest.mark.parametrize("lanes", [1, 4])
def test_an_application_without_revisions_loses_nothing(db: Database[Any], lanes: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    writers = [Writer(db, number, seed, revisions=False) for number in range(THREADS)]
    rig = Rig(db=db)
    rig.register(orders(max_parallel=lanes, migrate=to_shipping_slowly, **SETTINGS))
    migrate_meanwhile(rig, writers, lanes=lanes, most=250)
    assert_nothing_lost(rig, writers)
    totals = rig.totals
    print(f"{sum(writer.writes for writer in writers)} writes, {totals}")
    assert totals.retried + totals.txn_retries + totals.skipped > 0, "the writes never met"


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("server", ["db", "standalone_db"])
def test_with_the_revision_guard_an_application_that_bumps_loses_nothing(
    server: str, lanes: int, request: pytest.FixtureRequest
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    database: Database[Any] = request.getfixturevalue(server)
    writers = [Writer(database, number, seed, revisions=True) for number in range(THREADS)]
    rig = Rig(db=database)
    guard = {"guard": "revision", "revision_field": "rev"}
    rig.register(orders(max_parallel=lanes, migrate=to_shipping_slowly, **guard, **SETTINGS))
    migrate_meanwhile(rig, writers, lanes=lanes, most=250)
    assert_nothing_lost(rig, writers)
    print(f"{sum(writer.writes for writer in writers)} writes, {rig.totals}")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("server", ["db", "standalone_db"])
def test_beside_a_pipeline_no_write_is_lost(server: str, lanes: int, request: pytest.FixtureRequest) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    database: Database[Any] = request.getfixturevalue(server)
    transactions = server == "db"
    writers = [Writer(database, number, seed, revisions=not transactions) for number in range(THREADS)]
    rig = Rig(db=database)
    revision = {} if transactions else {"revision_field": "rev"}
    rig.register(piped(max_parallel=lanes, **revision, **SETTINGS))
    migrate_meanwhile(rig, writers, lanes=lanes, most=250)
    assert_nothing_lost(rig, writers)
    print(f"{sum(writer.writes for writer in writers)} writes, {rig.totals}")


def test_a_guard_that_sees_no_revision_would_lose_a_write(standalone_db: Database[Any]) -> None:
    """What the docs warn of, and the proof that these tests can see a lost write."""
    orders_ = standalone_db.orders
    orders_.insert_one(old(1, hits=[1]))

    def migrate(doc: Document) -> Document:
        orders_.update_one({"_id": 1}, {"$push": {"hits": 2}})
        doc["shipping"] = {"address": doc.pop("address")}
        doc["hits"] = [*doc["hits"], 3]
        return doc

    rig = Rig(db=standalone_db)
    rig.register(orders(guard="version", migrate=migrate))
    assert rig.run() is Status.COMPLETED
    assert rig.documents()[1]["hits"] == [1, 3]
