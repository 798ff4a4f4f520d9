"""A whole engine on a test's database: migrations given as objects, and named points at which a test may interrupt."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from attrs import define, field
from pymongo.database import Database

from migronaut import Background
from migronaut.core.lane import SliceResult
from migronaut.core.ports import Claim, Owner, Pass
from migronaut.core.state import BackgroundState, Counters, Direction, Partition, Spec, Status
from migronaut.engine import Engine, Ports, Source
from migronaut.engine.drive import drive
from migronaut.engine.lane.ahead import ThreadWriteBehind
from migronaut.engine.operator.registering import register
from migronaut.engine.operator.status import BackgroundStatus, status_of
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent, SystemClock, ThreadHeartbeat
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.locks import MongoLocks
from migronaut.mongo.store import MongoStore
from migronaut.mongo.tickets import MongoTickets

NAME = "20260101000000_orders.py"
LATER = "20260202000000_later.py"
COUNT = 200
ANN = Request(by="ann", reason="because")
LANES = "_migronaut_background_partitions"
STATES = "_migronaut_background"

Document = dict[str, Any]
Interrupt = Callable[[str], None]


def old(id_: Any, **more: Any) -> Document:
    """A document in the old shape."""
    return {"_id": id_, "address": f"street of {id_}", "hits": 0, "schema_version": 1} | more


def seeded(db: Database[Any], count: int = COUNT, **more: Any) -> None:
    """Documents in the old shape, with the ids 0, 1, 2, ..."""
    db.orders.insert_many([old(number, **more) for number in range(count)])


def to_shipping(doc: Document) -> Document:
    """The migration of most tests; it counts inside the document how often it was rewritten."""
    doc["shipping"] = {"address": doc.pop("address")}
    doc["migrations"] = doc.get("migrations", 0) + 1
    return doc


def orders(**settings: Any) -> Background:
    """From ``address`` to ``shipping.address``, without pauses, in small batches."""
    declared: dict[str, Any] = {
        "collection": "orders",
        "from_version": 1,
        "to_version": 2,
        "migrate": to_shipping,
        "batch_size": 10,
        "pause": 0,
    }
    merged = declared | settings
    return Background(**{name: value for name, value in merged.items() if value is not None})


TO_SHIPPING = [
    {"$set": {"shipping": {"address": "$address"}, "migrations": {"$add": [{"$ifNull": ["$migrations", 0]}, 1]}}},
    {"$unset": "address"},
]
"""What ``to_shipping`` does, for the server."""


def piped(**settings: Any) -> Background:
    """``orders()`` by a pipeline."""
    return orders(**{"migrate": None, "pipeline": TO_SHIPPING} | settings)


class GivenCatalog:
    """Migrations given as objects; giving one anew under another text is what a deploy does to its file."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def give(self, name: str, background: Background, *, text: str = "1", requires: tuple[str, ...] = ()) -> None:
        self._sources[name] = Source(name=name, checksum=text, background=background, requires=requires)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._sources))

    def find(self, name: str) -> Source | None:
        return self._sources.get(name)


class PointedStore(MongoStore):
    """The real store, which also says where it is: between claim, checkpoint and release a lane may die."""

    def __init__(self, db: Database[Any], reach: Interrupt) -> None:
        super().__init__(db)
        self._reach = reach

    def save(self, state: BackgroundState) -> BackgroundState | None:
        self._reach("store.save")
        saved = super().save(state)
        self._reach("store.saved")
        return saved

    def claim(self, work: Pass, *, owner: Owner, slots: int, ttl: float) -> Claim:
        claimed = super().claim(work, owner=owner, slots=slots, ttl=ttl)
        if isinstance(claimed, Partition):
            self._reach("store.claimed")
        return claimed

    def checkpoint(self, partition: Partition, checkpoint: Any, **session: Any) -> None:
        self._reach("store.checkpoint")
        super().checkpoint(partition, checkpoint, **session)
        self._reach("store.checkpointed")

    def release(self, partition: Partition) -> bool:
        self._reach("store.release")
        released = super().release(partition)
        self._reach("store.released")
        return released


class PointedLocks(MongoLocks):
    """The real locks, which also say where they are."""

    def __init__(self, db: Database[Any], reach: Interrupt) -> None:
        super().__init__(db)
        self._reach = reach

    def acquire(self, name: str, *, owner: Owner, ttl: float) -> str | None:
        nonce = super().acquire(name, owner=owner, ttl=ttl)
        self._reach("locks.acquired")
        return nonce

    def release(self, name: str, nonce: str) -> bool:
        self._reach("locks.release")
        return super().release(name, nonce)


@define(kw_only=True)
class Rig:
    """An engine on one database.

    Args:
        db: Holds the documents and the records.
        lease_ttl: Also the time to live of the coordinator's lock.
        interrupt: Called at every point; may write as an application would, or kill the process.
    """

    db: Database[Any]
    lease_ttl: float = 60.0
    interrupt: Interrupt = field(default=lambda point: None)
    catalog: GivenCatalog = field(factory=GivenCatalog)
    owner: Owner = field(factory=lambda: Owner(name=f"lane-{uuid4().hex[:6]}", host="here", pid=os.getpid()))
    engine: Engine = field(init=False)

    @engine.default
    def _engine(self) -> Engine:
        store = PointedStore(self.db, self.reach)

        def documents(spec: Spec) -> MongoDocuments:
            made = MongoDocuments(store, self.db, spec)
            made.interrupt = self.reach
            return made

        return Engine(
            Ports(
                store=store,
                tickets=MongoTickets(self.db),
                locks=PointedLocks(self.db, self.reach),
                documents=documents,
                catalog=self.catalog,
                clock=SystemClock(),
                heartbeat=ThreadHeartbeat(),
                write_behind=ThreadWriteBehind(),
                lease_ttl=self.lease_ttl,
                lock_ttl=self.lease_ttl,
            )
        )

    def reach(self, point: str) -> None:
        self.interrupt(point)

    @property
    def ports(self) -> Ports:
        return self.engine.ports

    @property
    def state(self) -> BackgroundState:
        state = self.ports.store.load(NAME)
        assert state is not None
        return state

    @property
    def totals(self) -> Counters:
        return self.status().totals

    def give(self, background: Background, *, name: str = NAME, **source: Any) -> None:
        """Put a migration on disk, or another text in its place."""
        self.catalog.give(name, background, **source)

    def register(self, background: Background | None = None, *, name: str = NAME, **source: Any) -> None:
        """Put a migration on disk and register it."""
        if background is not None:
            self.give(background, name=name, **source)
        register(self.ports, name, direction=Direction.FORWARD, registration=uuid4().hex, request=Request(by="test"))

    def run(self, *, name: str = NAME, lanes: int = 1, stop: StopEvent | None = None) -> Status | None:
        """Work a migration to its end."""
        return drive(self.engine, name, owner=self.owner, stop=stop or StopEvent(), lanes=lanes)

    def slice(self, *, length: float | None = None) -> SliceResult:
        """One slice of one lane; by default to its end."""
        return self.engine.run_slice(NAME, owner=self.owner, stop=StopEvent(), slice_length=length)

    def coordinate(self, *, name: str = NAME) -> object:
        """What a coordinator answers."""
        return self.engine.coordinate(name, owner=self.owner, stop=StopEvent())

    def status(self, name: str = NAME) -> BackgroundStatus:
        return status_of(self.ports, name)

    def documents(self) -> dict[Any, Document]:
        """All documents of the collection, by ``_id``."""
        return {doc["_id"]: doc for doc in self.db.orders.find()}

    def migrated(self) -> int:
        """How many documents were rewritten, once."""
        return self.db.orders.count_documents({"migrations": 1})

    def actions(self, name: str = NAME) -> list[str]:
        """The history, without the registration."""
        return [entry.action for entry in self.status(name).history[1:]]


def at(point: str, action: Callable[[], object], *, arrival: int = 1) -> Interrupt:
    """An interrupt that acts once: at the n-th arrival at a point, in whatever thread."""
    lock = threading.Lock()
    arrivals = 0

    def reach(reached: str) -> None:
        nonlocal arrivals
        if reached != point:
            return
        with lock:
            arrivals += 1
            mine = arrivals == arrival
        if mine:
            action()

    return reach


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[None]:
    """Run ``work`` in a thread beside a block; what it raises is raised at the end of the block."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive(), "the thread beside the test did not end"
    if failures:
        raise failures[0]


def assert_migrated_once(documents: Mapping[Any, Document]) -> None:
    """Every document is in the new shape and was rewritten exactly once."""
    wrong = [
        doc
        for doc in documents.values()
        if doc.get("migrations") != 1 or "address" in doc or "shipping" not in doc or doc.get("schema_version") != 2
    ]
    assert not wrong, f"{len(wrong)} of {len(documents)}, such as {wrong[0]}"


def assert_exact(rig: Rig, count: int = COUNT) -> None:
    """Every document was rewritten once, the counters say so, and no lane left a lease behind."""
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.scanned) == (count, count)
    assert rig.db[LANES].count_documents({"lease": {"$exists": True}}) == 0
