"""A whole engine in memory, for the unit tests of migration files: no server, no threads, no waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from migronaut.core.advice import failure_text
from migronaut.core.coordinator import Wait
from migronaut.core.ports import Owner
from migronaut.core.state import Direction, Status
from migronaut.engine import Engine, Ports, Source
from migronaut.engine.drive import advance
from migronaut.engine.operator.registering import register
from migronaut.engine.operator.status import BackgroundStatus, status_of
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundFailedError, BackgroundPendingError
from migronaut.memory.clock import FakeClock
from migronaut.memory.database import MemoryServer
from migronaut.memory.documents import MemoryDocuments
from migronaut.memory.locks import MemoryLocks
from migronaut.memory.running import LateWriteBehind, StillHeartbeat
from migronaut.memory.store import MemoryStore
from migronaut.memory.tickets import MemoryTickets
from migronaut.spec import Background

TESTER = Owner(name="test", host="memory", pid=0)


class MemoryCatalog:
    """Migrations that exist as objects instead of files."""

    def __init__(self, migrations: Mapping[str, Background]) -> None:
        self._migrations = dict(migrations)

    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(sorted(self._migrations))

    def find(self, name: str) -> Source | None:
        """One migration; its checksum is always the same."""
        background = self._migrations.get(name)
        return None if background is None else Source(name=name, checksum="memory", background=background)


@frozen(kw_only=True)
class MemoryEngine:
    """An engine over memory ports, and the server behind them.

    Args:
        migrations: By file name.
        server: Where the documents are: ``server.collection("orders").insert(...)``.

    Attributes:
        raised: What functions of the migrations raised, in order, as it is.
    """

    migrations: Mapping[str, Background]
    server: MemoryServer = field(factory=MemoryServer)
    raised: list[Exception] = field(factory=list, init=False)
    engine: Engine = field(init=False)

    @engine.default
    def _engine(self) -> Engine:
        server = self.server
        return Engine(
            Ports(
                store=MemoryStore(server),
                tickets=MemoryTickets(server),
                locks=MemoryLocks(server),
                documents=lambda spec: MemoryDocuments(server, spec.collection),
                catalog=MemoryCatalog(self.migrations),
                clock=server.clock,
                heartbeat=StillHeartbeat(),
                write_behind=LateWriteBehind(),
                on_raise=self.raised.append,
            )
        )

    @property
    def clock(self) -> FakeClock:
        """The clock of the server and of the engine."""
        return self.server.clock

    def register(self, name: str, *, direction: Direction = Direction.FORWARD) -> None:
        """Do what ``migronaut up`` does for one background file."""
        register(self.engine.ports, name, direction=direction, registration=name, request=Request(by="test"))

    def run(self, name: str) -> BackgroundStatus:
        """Work a registered migration to its end and look at it.

        Raises:
            BackgroundPendingError: It waits for another one, which has to be run first: nobody else works here.
        """
        stop = StopEvent()
        while isinstance(found := advance(self.engine, name, owner=TESTER, stop=stop), Wait):
            if found.awaits:
                raise BackgroundPendingError(f"{name} {found.reason}; run that first.", migration=name)
            self.clock.sleep(found.retry_after, stop)
        return status_of(self.engine.ports, name)


@frozen(kw_only=True)
class Migrated:
    """What became of the documents of a test.

    Args:
        documents: All of them, in the order of their ids.
        status: How the migration ended.
        raised: What its function raised for documents that are left out, as far as ``max_document_errors`` allows.
    """

    documents: list[dict[str, Any]]
    status: BackgroundStatus
    raised: tuple[Exception, ...] = ()


def migrate_in_memory(
    background: Background, documents: Iterable[Mapping[str, Any]], *, direction: Direction = Direction.FORWARD
) -> Migrated:
    """Run a migration over some documents, through the real engine.

    Args:
        background: As the migration file declares it.
        documents: What the collection holds; each needs an ``_id``.
        direction: ``REVERT`` tries the way back.

    Returns:
        All documents of the collection afterwards, and the status with its counters and errors.

    Raises:
        BackgroundFailedError: The migration failed. Its cause is what the migration's function raised first.
    """
    memory = MemoryEngine(migrations={"migration.py": background})
    collection = memory.server.collection(background.spec.collection)
    collection.insert(*documents)
    memory.register("migration.py", direction=direction)
    status = memory.run("migration.py")
    if status.status == Status.FAILED:
        why = failure_text("The migration", status.last_error, status.errors)
        raise BackgroundFailedError(why) from next(iter(memory.raised), None)
    return Migrated(documents=collection.find(), status=status, raised=tuple(memory.raised))
