"""One simulated installation: a server, a queue, files on disks, and the processes that share them."""

from __future__ import annotations

import random as randoms
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from attrs import frozen

from migronaut.core.ports import Documents, Owner
from migronaut.core.state import TERMINAL, BackgroundState, Direction, Partitioning, Spec, Status
from migronaut.core.tickets import Role
from migronaut.engine import Engine, Ports, Source
from migronaut.engine.operator.registering import register
from migronaut.engine.states import Request
from migronaut.memory.clock import FakeClock
from migronaut.memory.documents import MemoryDocuments
from migronaut.memory.locks import MemoryLocks
from migronaut.memory.running import LateWriteBehind
from migronaut.memory.store import MemoryStore
from migronaut.memory.tickets import MemoryTickets
from migronaut.queueing import BackgroundProcessor, Producer, QueueSettings
from migronaut.simulation.actor import Actor
from migronaut.simulation.faults import Event
from migronaut.simulation.invariants import Invariants
from migronaut.simulation.ledger import PIPELINE, Ledger, ObservedServer, migrate
from migronaut.simulation.proxy import SimulatedClock, SimulatedHeartbeat, failed, proxied
from migronaut.simulation.queue import FaultyQueue, QueueFactory
from migronaut.simulation.scenario import FIRST, SECOND, FileVersion, Scenario
from migronaut.simulation.scheduler import Scheduler
from migronaut.spec import Background

COLLECTIONS = {FIRST: "documents", SECOND: "dependents"}
_TEXT_OF_SECOND = FileVersion(checksum="second", batch_size=2, max_parallel=1)
_INSIDE = frozenset(
    {
        "documents.write_same.compared",
        "documents.write_same.before-commit",
        "documents.write_same.committed",
        "documents.rewrite_fenced.document",
        "documents.rewrite_fenced.rewritten",
        "documents.rewrite_fenced.before-commit",
        "documents.rewrite_fenced.committed",
        "documents.rewrite.document",
        "documents.rewrite.rewritten",
        "documents.write_guarded.statement",
        "documents.write_guarded.written",
    }
)


class SimulatedTroubleError(Exception):
    """What the transform of a document in trouble raises."""


class World:
    """What survives every crash.

    Attributes:
        disks: By name of a process, which text of the first migration's file it finds.
        troubles: By ``_id``, how often the transform will still raise; -1 = always.
        numbers: Never gives one twice.
        calm: Nobody starts anything any more.
    """

    def __init__(self, scenario: Scenario, scheduler: Scheduler, clock: FakeClock, make_queue: QueueFactory) -> None:
        self.scenario = scenario
        self.scheduler = scheduler
        self.server = ObservedServer(
            clock=clock, random=randoms.Random(f"server {scenario.seed}"), transactions=scenario.transactions
        )
        self.ledger = Ledger(scenario, scheduler)
        self.invariants = Invariants(self.server, scheduler, self.ledger)
        self.queue = make_queue(clock, scheduler.decisions.choose)
        self.disks: dict[str, int] = {}
        self.troubles = {id_: trouble.times for id_, trouble in scenario.troubles.items()}
        self.numbers = count()
        self.calm = False
        documents = self.server.collection(COLLECTIONS[FIRST])
        documents.insert(*scenario.documents)
        documents.refuse(lambda stored: "new" in stored and self._in_trouble(stored["_id"], refused=True))
        if scenario.dependent:
            self.server.collection(COLLECTIONS[SECOND]).insert(
                *({**document, "kind": "x"} for document in scenario.documents[:4])
            )
        self.server.observer = self.ledger.observe
        self.server.interrupt = self._inside

    def register(self) -> None:
        """Do what ``migronaut up`` does, before anything can go wrong."""
        ports = self.ports("setup", lambda: Actor("setup", lambda: None), raw=True)
        for name in (FIRST, SECOND) if self.scenario.dependent else (FIRST,):
            made = register(ports, name, direction=Direction.FORWARD, registration=name, request=Request(by="setup"))
            self.invariants.statuses[made.state.status] += 1

    def enqueue(self) -> None:
        """Send the first hints; without them it is the beat that finds the migration."""
        for state in self.states():
            ticket, _ = MemoryTickets(self.server).open(state.name, Role.COORDINATOR)
            self.queue.port.enqueue([ticket.hint])

    def ports(self, disk: str, actor: Callable[[], Actor], *, raw: bool = False) -> Ports:
        """The ports of one process.

        Args:
            disk: Where its files are.
            raw: Without points.
        """
        server, scheduler, watch = self.server, self.scheduler, self.invariants.watch
        store, tickets, locks = MemoryStore(server), MemoryTickets(server), MemoryLocks(server)

        def documents(spec: Spec) -> Documents:
            name = spec.collection
            port = MemoryDocuments(server, name)
            return port if raw else proxied(port, "documents", scheduler, partial(watch, collection=name))

        return Ports(
            store=store if raw else proxied(store, "store", scheduler, watch),
            tickets=tickets if raw else proxied(tickets, "tickets", scheduler, watch),
            locks=locks if raw else proxied(locks, "locks", scheduler, watch),
            documents=documents,
            catalog=Disk(self, disk),
            clock=SimulatedClock(scheduler),
            heartbeat=SimulatedHeartbeat(scheduler, actor),
            random=randoms.Random(f"jitter {self.scenario.seed} {next(self.numbers)}"),
            write_behind=LateWriteBehind(),
        )

    def states(self) -> tuple[BackgroundState, ...]:
        """All states, looked at from outside."""
        return tuple(self.server.states[name] for name in sorted(self.server.states))

    def settled(self, *names: str) -> bool:
        """Nothing is going on and nothing is about to, in the named migrations or in all."""
        now = self.server.now()
        states = [state for state in self.states() if not names or state.name in names]
        return (
            not any(actor.mortal and (actor.ready_when is None or actor.eager) for actor in self.scheduler.actors)
            and not any(lock.expires_at > now for lock in self.server.locks.values())
            and not any(MemoryTickets(self.server).of(state.name) for state in states)
            and not any(MemoryStore(self.server).leases(state.name) for state in states)
            and all(state.status in TERMINAL or state.status is Status.PAUSED for state in states)
        )

    def background(self, name: str, text: FileVersion) -> Background:
        """What a migration file declares."""
        scenario, collection = self.scenario, COLLECTIONS[name]
        settings: dict[str, Any] = {
            "collection": collection,
            "batch_size": text.batch_size,
            "max_parallel": text.max_parallel,
            "pause": scenario.pause,
            "slice_length": scenario.slice_length,
            "max_document_errors": scenario.max_document_errors,
            "max_passes": scenario.max_passes,
            "max_slice_failures": scenario.max_slice_failures,
            "max_conflict_retries": scenario.max_conflict_retries,
            "guard": scenario.guard,
            "partitions": Partitioning(over_partition=2, min_documents=2),
        }
        if scenario.versioned:
            settings |= {"from_version": 1, "to_version": 2, "filter": {"kind": "x"} if text.narrow else None}
        else:
            settings["filter"] = {"new": {"$exists": False}}
        if scenario.revisions:
            settings["revision_field"] = "rev"
        if scenario.pipeline:
            # Nobody can come between the reading and the writing of a document, so there is nothing to retry.
            del settings["guard"], settings["max_conflict_retries"]
            return Background(pipeline=PIPELINE, **settings)
        transform = self._transform(name, text.checksum)
        if scenario.batched:
            return Background(migrate_many=self._many(transform), **settings)
        return Background(migrate=transform, **settings)

    def _transform(self, name: str, checksum: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def transform(document: dict[str, Any]) -> dict[str, Any]:
            self.invariants.transforming(name, checksum)
            if name == FIRST and self._in_trouble(document["_id"], refused=False):
                raise SimulatedTroubleError("the simulation let a document fail")
            return migrate(document)

        return transform

    def _in_trouble(self, id_: Any, *, refused: bool) -> bool:
        """Whether a document fails this time, in the transform or by the server's refusal."""
        times, trouble = self.troubles.get(id_, 0), self.scenario.troubles.get(id_)
        if not times or trouble is None or trouble.refused is not refused:
            return False
        self.troubles[id_] = max(times - 1, -1)
        self.ledger.happened[COLLECTIONS[FIRST], "failed"] += 1
        return True

    def _many(self, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[list[Any]], list[Any]]:
        def transform_many(documents: list[Any]) -> list[Any]:
            results: list[Any] = []
            for document in documents:
                trouble = self.scenario.troubles.get(document["_id"])
                try:
                    results.append(transform(document))
                except SimulatedTroubleError as error:
                    if trouble is not None and trouble.slice:
                        raise
                    results.append(error)
            return results

        return transform_many

    def _inside(self, point: str) -> None:
        """A point in the middle of a call."""
        if point not in _INSIDE or self.scheduler.atomic:
            return
        if point in {"documents.write_same.committed", "documents.rewrite_fenced.committed"}:
            self.invariants.committed()
        if self.scheduler.point(point, documents=True) is Event.FAIL:
            raise failed(self.scheduler, "inside")
        if point in {"documents.write_same.before-commit", "documents.rewrite_fenced.before-commit"}:
            self.invariants.before_commit()


@frozen
class Disk:
    """The files that one process finds."""

    world: World
    name: str

    def names(self) -> tuple[str, ...]:
        """All files."""
        return (FIRST, SECOND)

    def find(self, name: str) -> Source | None:
        """A file as it lies there now."""
        text = self.world.scenario.files[self.world.disks.get(self.name, 0)] if name == FIRST else _TEXT_OF_SECOND
        return Source(
            name=name,
            checksum=text.checksum,
            background=self.world.background(name, text),
            requires=(FIRST,) if name == SECOND else (),
        )


class Process:
    """One process of the installation: its memory is what a crash takes away."""

    def __init__(self, world: World, disk: str) -> None:
        self.world = world
        self.disk = disk
        self.name = f"{disk}-{next(world.numbers)}"
        self.owner = Owner(name=self.name, host="simulation", pid=0)
        self.actor: Actor | None = None
        self.queue = FaultyQueue(world.queue, world.scheduler)
        self.ports = world.ports(disk, self._actor)
        self.engine = Engine(self.ports)
        self.producer = Producer(self.engine, self.queue)
        self.processor: BackgroundProcessor[Any] = BackgroundProcessor(
            self.engine,
            self.queue,
            owner=self.owner,
            settings=QueueSettings(lane_poll=world.scenario.lane_poll, heal_interval=30.0, verify_interval=120.0),
        )

    def _actor(self) -> Actor:
        if self.actor is None:
            raise RuntimeError("a process works only after an actor was started for it")
        return self.actor
