"""One simulated installation: a server, a queue, files on disks, and the ports of its processes."""

from __future__ import annotations

import random as randoms
from collections.abc import Callable
from functools import partial
from itertools import count

from migronaut.core.ports import Documents
from migronaut.core.state import TERMINAL, BackgroundState, Direction, Spec, Status
from migronaut.core.tickets import Role
from migronaut.engine import Ports
from migronaut.engine.operator.registering import register
from migronaut.engine.states import Request
from migronaut.memory.clock import FakeClock
from migronaut.memory.locks import MemoryLocks
from migronaut.memory.running import LateWriteBehind
from migronaut.memory.store import MemoryStore
from migronaut.memory.tickets import MemoryTickets
from migronaut.simulation.actor import Actor
from migronaut.simulation.counting import Counting
from migronaut.simulation.driver import Driver, interrupted
from migronaut.simulation.faults import Event, Where
from migronaut.simulation.fences import Fences
from migronaut.simulation.files import Disk, Files
from migronaut.simulation.indexes import Built, HintedDocuments, Index
from migronaut.simulation.invariants import Invariants
from migronaut.simulation.ledger import Ledger, ObservedServer
from migronaut.simulation.perils import Peril
from migronaut.simulation.proxy import SimulatedClock, SimulatedHeartbeat, Surroundings, Watch, failed, proxied
from migronaut.simulation.queue import QueueFactory
from migronaut.simulation.scenario import COLLECTIONS, FIRST, SECOND, Scenario
from migronaut.simulation.scheduler import Scheduler

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
_FAILURES = ("the simulation", "SimulatedTroubleError")
"""Words of all errors by which a slice may fail."""
_OUR_CONCERN = {"w": "majority"}


class World:
    """What survives every crash.

    Attributes:
        numbers: Never gives one twice.
        calm: Nobody starts anything any more.
        index: Of the collection that is migrated.
        forged: What was sent to the queue and is no payload of ours, as JSON.
        neighbour: Another installation on the same broker.
    """

    def __init__(self, scenario: Scenario, scheduler: Scheduler, clock: FakeClock, make_queue: QueueFactory) -> None:
        self.scenario = scenario
        self.scheduler = scheduler
        self.clock = clock
        self.server = ObservedServer(
            clock=clock, random=randoms.Random(f"server {scenario.seed}"), transactions=scenario.transactions
        )
        self.ledger = Ledger(self.server, scenario, scheduler)
        self.fences = Fences(self.server, scheduler, scenario)
        counting = Counting(self.server, scheduler, self.ledger)
        self.invariants = Invariants(
            self.server, scheduler, self.ledger, self.fences, counting, expected_failures=_FAILURES
        )
        self.queue = make_queue(clock, scheduler.decisions.choose)
        self.files = Files(scenario, self.invariants)
        self.numbers = count()
        self.calm = False
        self.index = Index(self._index_at_first())
        self.forged: list[str] = []
        self.neighbour: World | None = None
        self._store_documents()
        self.ledger.may_write = self.fences.may_write
        self.server.observer = self.ledger.observe
        self.server.interrupt = self._inside

    def _index_at_first(self) -> Built:
        if Peril.INDEX not in self.scenario.perils:
            return Built.READY
        return randoms.Random(f"index {self.scenario.seed}").choice((Built.READY, Built.ABSENT))

    def _store_documents(self) -> None:
        documents = self.server.collection(COLLECTIONS[FIRST])
        documents.insert(*self.scenario.documents)
        documents.refuse(lambda stored: "new" in stored and self.files.in_trouble(stored["_id"], refused=True))
        if SECOND in self.scenario.names:
            some = (document for document in self.scenario.documents if "old" in document)
            self.server.collection(COLLECTIONS[SECOND]).insert(
                *({**document, "kind": "x"} for document, _ in zip(some, range(4), strict=False))
            )

    def register(self) -> None:
        """Do what ``migronaut up`` does, before anything can go wrong."""
        ports = self.ports("setup", lambda: Actor("setup", lambda: None), raw=True)
        for name in self.scenario.names:
            made = register(ports, name, direction=Direction.FORWARD, registration=name, request=Request(by="setup"))
            self.invariants.statuses[made.state.status] += 1

    def enqueue(self) -> None:
        """Send the first hints; without them it is the beat that finds the migration."""
        for state in self.states():
            ticket, _ = MemoryTickets(self.server).open(state.name, Role.COORDINATOR)
            self.queue.port.enqueue([ticket.hint])

    def begin(self) -> None:
        """Let everything go wrong from here on: a majority has what is there."""
        self.server.durability.kept = Peril.FAILOVER in self.scenario.perils

    def lose_primary(self) -> None:
        """Let another member be the primary, which may have all that was written, or not."""
        durability = self.server.durability
        lost = self.scheduler.decisions.choose(durability.pending + 1)
        self.scheduler.seen["write undone"] += lost
        durability.fail_over(lost=lost)

    def ports(self, disk: str, actor: Callable[[], Actor], *, raw: bool = False) -> Ports:
        """The ports of one process.

        Args:
            disk: Where its files are.
            raw: Without points.
        """
        server, scheduler, watch = self.server, self.scheduler, self.invariants.watch
        store, tickets, locks = MemoryStore(server), MemoryTickets(server), MemoryLocks(server)
        ours = self._surroundings(watch, Driver(_OUR_CONCERN))

        def documents(spec: Spec) -> Documents:
            """The port of a process, watched."""
            port = HintedDocuments(server, spec.collection, index=self.index, used=spec.versioned)
            if raw:
                return port
            name = self.files.name_of(spec)
            surroundings = self._surroundings(partial(watch, name=name), Driver(spec.write_concern))
            return proxied(port, "documents", surroundings)

        return Ports(
            store=store if raw else proxied(store, "store", ours),
            tickets=tickets if raw else proxied(tickets, "tickets", ours),
            locks=locks if raw else proxied(locks, "locks", ours),
            documents=documents,
            catalog=Disk(self.files, disk, _ignored if raw else self.fences.found_file),
            clock=SimulatedClock(scheduler),
            heartbeat=SimulatedHeartbeat(scheduler, actor),
            random=randoms.Random(f"jitter {self.scenario.seed} {next(self.numbers)}"),
            write_behind=LateWriteBehind(),
        )

    def _surroundings(self, watch: Watch, driver: Driver) -> Surroundings:
        return Surroundings(
            scheduler=self.scheduler,
            durability=self.server.durability,
            watch=watch,
            driver=driver,
            stubborn=self._stubborn,
        )

    def _stubborn(self, point: str) -> None:
        """Raise what a call always raises, if it is that one."""
        stubborn = self.scenario.stubborn
        if stubborn is not None and point.startswith(stubborn.call):
            self.scheduler.seen["failed as always"] += 1
            raise stubborn.error("the simulation let a call fail, as it always does")

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

    def _inside(self, point: str) -> None:
        """A point in the middle of a call."""
        if point not in _INSIDE or self.scheduler.atomic:
            return
        if point in {"documents.write_same.committed", "documents.rewrite_fenced.committed"}:
            self.invariants.fences.committed()
            self.scheduler.current.committed = self.server.durability.mark()
        if self.scheduler.point(point, Where.DOCUMENTS) is Event.FAIL:
            raise failed(self.scheduler, "inside")
        if self.scheduler.current.term != self.server.durability.term and not point.endswith("committed"):
            self.scheduler.seen["call interrupted by a failover"] += 1
            raise interrupted(point)
        if point in {"documents.write_same.before-commit", "documents.rewrite_fenced.before-commit"}:
            self.invariants.fences.before_commit()


def _ignored(name: str, checksum: str) -> None:
    """Nobody works with what was found."""
