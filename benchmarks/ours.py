"""migronaut doing the job: one lane, two lanes as threads or as processes, and a pipeline on the server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen
from pymongo import MongoClient

from benchmarks.lane import LaneProcess
from benchmarks.orders import DB, ORDERS, Orders
from benchmarks.peers import Job
from migronaut import Background, Migrator
from migronaut.errors import InvalidMigrationError

FILE = "20260101000000_orders_shipping.py"
_HEAD = '"""Move address into shipping."""\nfrom migronaut import Background\n'
_FUNCTION = """

def migrate(doc):
    doc["shipping"] = {"address": doc.pop("address")}
    return doc


"""
_STAGES: list[dict[str, Any]] = [{"$set": {"shipping": {"address": "$address"}}}, {"$unset": "address"}]


@frozen(kw_only=True)
class Settings:
    """What the file declares beside the job itself; where nothing is given, what users get.

    Args:
        pause: Seconds between two batches; None for the default.
        batch_size: None for the default.
        pipeline: The server does the work.
        guard: None for the default.
    """

    max_parallel: int = 1
    pause: float | None = 0
    batch_size: int | None = None
    pipeline: bool = False
    guard: str | None = None

    def text(self) -> str:
        """The migration file."""
        given = {
            "max_parallel": self.max_parallel,
            "pause": self.pause,
            "batch_size": self.batch_size,
            "guard": self.guard,
        }
        extra = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        how = f"pipeline={_STAGES!r}" if self.pipeline else "migrate=migrate"
        declared = f"background = Background(collection={ORDERS!r}, from_version=1, to_version=2, {how}{extra})\n"
        return _HEAD + ("" if self.pipeline else _FUNCTION) + declared


@contextmanager
def registered(orders: Orders, settings: Settings, *, client: MongoClient[Any] | None = None) -> Iterator[Migrator]:
    """A migrator that has the migration registered, and not begun."""
    with tempfile.TemporaryDirectory(prefix="migronaut-bench-") as directory:
        Path(directory, FILE).write_text(settings.text(), encoding="utf-8")
        migrator = Migrator(client=client or orders.client, db=DB, migrations_dir=directory)
        migrator.up()
        yield migrator


@contextmanager
def migrate(orders: Orders) -> Iterator[Job]:
    """One lane, without pauses, everything else as by default."""
    with registered(orders, Settings()) as migrator:
        yield lambda: _run(migrator)


@contextmanager
def two_threads(orders: Orders) -> Iterator[Job]:
    """Two lanes in one process."""
    with registered(orders, Settings(max_parallel=2)) as migrator:
        yield lambda: _run(migrator, concurrency=2)


@contextmanager
def two_processes(orders: Orders) -> Iterator[Job]:
    """Two processes with a lane each, started beforehand; timed until the migration is completed."""
    with registered(orders, Settings(max_parallel=2)) as migrator, ExitStack() as stack:
        lanes = [stack.enter_context(LaneProcess.beside(migrator, orders)) for _ in range(2)]

        def job() -> None:
            for lane in lanes:
                lane.go()
            LaneProcess.wait_for_first(lanes)

        yield job


@contextmanager
def pipeline(orders: Orders) -> Iterator[Job]:
    """The stages of ``server``, range by range, with checkpoints and everything else."""
    with registered(orders, Settings(pipeline=True)) as migrator:
        yield lambda: _run(migrator)


def takes_pipelines() -> bool:
    """Whether this version of migronaut has pipelines on the server."""
    try:
        Background(collection=ORDERS, from_version=1, to_version=2, pipeline=_STAGES)  # type: ignore[call-arg]
    except InvalidMigrationError:
        return False
    return True


def _run(migrator: Migrator, *, concurrency: int = 1) -> None:
    migrator.background.run(FILE, concurrency=concurrency)
