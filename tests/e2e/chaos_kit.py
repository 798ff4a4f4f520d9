"""A collection of 20 000 documents, a migration of it by four lanes, real workers, and what must hold in the end.

What happens in the middle is forced, not timed: one document holds the lane that comes to it, as long as a test wants.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field, frozen
from pymongo.database import Database

from migronaut import Migrator
from migronaut.engine.operator.status import BackgroundStatus
from waiting import wait_until

DOCUMENTS = 20_000
LANES = 4
MIGRATION = "20260101000000_orders.py"
HOLDING = 12_345
"""The document that holds its lane."""

SETTINGS = {"lease_ttl": 3, "lock_ttl": 3, "slice_length": 2, "heal_interval": 1, "heal_grace": 2}
"""Seconds: whatever is lost comes back soon."""

POISON = {"_id": "poisoned-0f3d", "note": "marker-7c21"}
"""A document that makes the transform raise; its id and its content must not leave the database."""

_PATH = [Path(__file__).parents[2] / "src", Path(__file__).parents[1]]
_FILE = '''\
"""Orders keep where they go under shipping."""

import os
import time
from pathlib import Path

from migronaut import Background

HOLD = Path({hold!r})


def migrate(doc):
    if doc.get("note"):
        raise ValueError(f"{{doc['_id']}} cannot be migrated: {{doc['note']}}")
    if doc["_id"] == {holding} and HOLD.exists():
        HOLD.with_name("held").write_text(str(os.getpid()))
        while HOLD.exists():
            time.sleep(0.01)
    doc["shipping"] = {{"address": doc.pop("address")}}
    doc["migrations"] = doc.get("migrations", 0) + 1
    return doc


background = Background(
    collection="orders",
    from_version=1,
    to_version=2,
    migrate=migrate,
    revision_field="rev",
    batch_size=200,
    pause=0.02,
    max_parallel={lanes},
)
'''

Db = Database[dict[str, Any]]


class Library(Protocol):
    """One queue library on one broker."""

    variables: Mapping[str, str]

    def commands(self, *, faulty: bool) -> Sequence[Sequence[str]]:
        """How its workers are started; ``faulty`` ones lose or double the hints that they send."""

    def wake(self, migrator: Migrator) -> None:
        """See to it that its workers know of the migration."""

    def lose_everything(self) -> None:
        """The broker comes back empty."""

    def kept(self) -> bytes:
        """All that the broker keeps."""


class Worker:
    """One worker command, with all that it starts, in a session of its own."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        self._start: Callable[[], subprocess.Popen[bytes]] = lambda: _started(command, env, log)
        self._process = self._start()
        self.log = log

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def processes(self) -> list[int]:
        """Its own id, and those of its children; an RQ job's process is in a group of its own, but in this session."""
        return [pid for pid in _all_processes() if _session(pid) == self._process.pid]

    def kill(self) -> None:
        """``kill -9`` for the whole of it."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def terminate(self) -> None:
        """SIGTERM for the one that a supervisor knows."""
        self._process.terminate()

    def wait(self, timeout: float) -> int:
        """Its exit code."""
        return self._process.wait(timeout)

    def restart(self) -> None:
        """As a supervisor does."""
        self._process = self._start()


def _started(command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


@define
class Hold:
    """Stops the lane that comes to a certain document, in the middle of its batch."""

    _directory: Path

    def set(self) -> None:
        self._file.touch()

    def release(self) -> None:
        self._file.unlink(missing_ok=True)

    def held(self) -> int | None:
        """The process that waits there, once one does."""
        told = self._directory / "held"
        return int(text) if told.exists() and (text := told.read_text()) else None

    @property
    def _file(self) -> Path:
        return self._directory / "hold"


@frozen
class Chaos:
    """A migration that workers of one library do."""

    db: Db
    library: Library
    home: Path
    migrator: Migrator
    hold: Hold
    workers: list[Worker] = field(factory=list)

    # ------------------------------------------------------------------ beginning

    def start(self, *, faulty: str = "") -> None:
        """Wake, and start the workers."""
        self.library.wake(self.migrator)
        env = {**os.environ, **self.variables, "CHAOS_FAULT": faulty}
        for number, command in enumerate(self.library.commands(faulty=bool(faulty))):
            self.workers.append(Worker(command, env=env, log=self.home / f"worker-{number}.log"))

    @property
    def variables(self) -> Mapping[str, str]:
        config = self.migrator.config
        settings = {"uri": config.uri, "db": config.db, "migrations_dir": config.migrations_dir, **SETTINGS}
        configured = {f"MIGRONAUT_{name.upper()}": str(value) for name, value in settings.items()}
        return configured | self.library.variables | {"PYTHONPATH": os.pathsep.join(map(str, _PATH))}

    def stop(self) -> None:
        """No process is left."""
        self.hold.release()
        for worker in self.workers:
            worker.kill()

    # ------------------------------------------------------------------ the middle

    def worker_in_the_middle_of_a_batch(self) -> Worker:
        """The worker whose lane is held, once one is."""
        pid = wait_until(self.hold.held, within=60, what=self.told)
        (found,) = [worker for worker in self.workers if pid in worker.processes()]
        return found

    # ------------------------------------------------------------------ the end

    def status(self) -> BackgroundStatus:
        return self.migrator.background.status(MIGRATION)

    def ends(self, status: str, *, within: float = 75, supervised: bool = False) -> BackgroundStatus:
        """Wait for the end, with nothing left behind."""

        def ended() -> BackgroundStatus | None:
            now = self.status()
            assert len(now.leases) <= LANES
            assert now.status in {"pending", "running", status}, now.last_error
            if supervised:
                self._supervise()
            return now if now.status == status and not self.left_behind() else None

        ended_as: BackgroundStatus = wait_until(ended, within=within, what=self.told)
        return ended_as

    def left_behind(self) -> dict[str, list[dict[str, Any]]]:
        """Tickets, leases and locks."""
        found = {
            "tickets": self.db["_migronaut_background_tickets"].find(),
            "leases": self.db["_migronaut_background_partitions"].find({"lease": {"$exists": True}}),
            "locks": self.db["_migronaut_locks"].find(),
        }
        return {what: left for what, cursor in found.items() if (left := list(cursor))}

    def migrated(self, **more: Any) -> int:
        """Documents that were migrated exactly once, by every sign of it."""
        once = {"$expr": {"$eq": ["$rev", {"$add": ["$was", 1]}]}, "migrations": 1, "schema_version": 2}
        return self.db.orders.count_documents(
            once | {"shipping.address": {"$exists": True}, "address": {"$exists": False}} | more
        )

    def untouched(self) -> int:
        """Documents that are as they were seeded."""
        as_before = {"$expr": {"$eq": ["$rev", "$was"]}, "schema_version": 1, "address": {"$exists": True}}
        return self.db.orders.count_documents(as_before | {"migrations": {"$exists": False}})

    def logs(self) -> bytes:
        return b"".join(worker.log.read_bytes() for worker in self.workers)

    def told(self) -> str:
        """What a failed test shows."""
        logs = "\n".join(f"--- {each.log.name}\n{each.log.read_text()[-3000:]}" for each in self.workers)
        return f"{self.status()}\nleft behind: {self.left_behind()}\n{logs}"

    def _supervise(self) -> None:
        for worker in self.workers:
            if not worker.running:
                worker.restart()


def python(*module_and_arguments: str) -> list[str]:
    """A command that runs a module of this environment."""
    return [sys.executable, "-m", *module_and_arguments]


def _seed(db: Db, documents: int) -> None:
    db.orders.insert_many(
        {"_id": number, "schema_version": 1, "rev": number % 5, "was": number % 5, "address": f"{number} Main St"}
        for number in range(documents)
    )
    db.orders.create_index([("schema_version", 1), ("_id", 1)])


@contextmanager
def chaos(
    db: Db, uri: str, library: Library, home: Path, *, text: str = _FILE, documents: int = DOCUMENTS
) -> Iterator[Chaos]:
    """Documents and a registered migration; whatever was started has ended afterwards."""
    directory = home / "migrations"
    directory.mkdir()
    (directory / MIGRATION).write_text(text.format(hold=str(home / "hold"), holding=HOLDING, lanes=LANES))
    _seed(db, documents)
    with Migrator(uri=uri, db=db.name, migrations_dir=directory, **SETTINGS) as migrator:
        migrator.up()
        made = Chaos(db, library, home, migrator, Hold(home))
        try:
            yield made
        finally:
            made.stop()
