"""A whole migration through ``setup``: real MongoDB, a Dramatiq worker in this process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dramatiq import Worker
from dramatiq.brokers.stub import StubBroker
from pymongo import MongoClient
from pymongo.database import Database

from migronaut import Migrator
from migronaut.core.state import Status
from migronaut_dramatiq import enqueue_background, setup

NAME = "20260101000000_ship.py"
FILE = """
from migronaut import Background

def migrate(doc):
    doc["shipping"] = {"address": doc.pop("address")}
    return doc

background = Background(
    collection="orders", from_version=0, to_version=1, migrate=migrate, revision_field="revision", max_parallel=2
)
"""


def test_a_migration_is_completed_by_workers_and_every_document_migrated_once(
    db: Database[dict[str, Any]], client: MongoClient[dict[str, Any]], tmp_path: Path
) -> None:
    db.orders.insert_many({"_id": n, "address": n, "schema_version": 0, "revision": 0} for n in range(2000))
    (tmp_path / NAME).write_text(FILE)
    migrator = Migrator(client=client, db=db.name, migrations_dir=tmp_path)
    migrator.up()
    broker = StubBroker()
    queue = setup(broker, migrator)
    (enqueued,) = enqueue_background(queue, migrator)
    assert (enqueued.migration, enqueued.absorbed) == (NAME, False)
    worker = Worker(broker, worker_timeout=20, worker_threads=4)
    worker.start()
    try:
        deadline = time.monotonic() + 30
        # The ticket goes last: a worker that is stopped before leaves it for another one.
        while migrator.background.status(NAME).status is not Status.COMPLETED or migrator.ports.tickets.of(NAME):
            assert time.monotonic() < deadline, migrator.background.status(NAME)
            time.sleep(0.05)
    finally:
        worker.stop(timeout=10_000)
    assert broker.dead_letters == []
    assert db.orders.count_documents({"schema_version": 1, "shipping.address": {"$exists": True}}) == 2000
    assert db.orders.distinct("revision") == [1]
    assert migrator.ports.tickets.of(NAME) == ()
