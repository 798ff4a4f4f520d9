"""Background migrations inside a synchronous application."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from migronaut import BackgroundRunner, Migrator

Db = Database[dict[str, Any]]

FILE = """
from migronaut import Background

def migrate(doc):
    doc["n"] += 1
    return doc

background = Background(collection="things", from_version=0, to_version=1, migrate=migrate, pause=0, batch_size=10,
                        max_parallel=2)
"""


@pytest.fixture
def migrator(client: MongoClient[dict[str, Any]], db: Db, tmp_path: Path) -> Migrator:
    (tmp_path / "0001_things.py").write_text(FILE)
    db.things.insert_many([{"_id": number, "n": 0} for number in range(500)])
    return Migrator(client=client, db=db.name, migrations_dir=tmp_path)


def until(condition: Any, seconds: float = 30) -> None:
    """Poll until ``condition()`` is true."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("the condition did not come true in time")


def test_two_runners_migrate_everything_once_while_the_application_runs(migrator: Migrator, db: Db) -> None:
    with BackgroundRunner(migrator, lanes=2, poll=0.05), BackgroundRunner(migrator, lanes=2, poll=0.05):
        migrator.up()
        until(lambda: migrator.background.status("0001_things.py").status == "completed")
    assert db.things.count_documents({"n": 1, "schema_version": 1}) == 500


def test_a_runner_stops_at_a_batch_and_another_goes_on(migrator: Migrator, db: Db) -> None:
    migrator.up()
    runner = BackgroundRunner(migrator, poll=0.05)
    runner.start()
    runner.start()  # the second start changes nothing
    until(lambda: db.things.count_documents({"n": 1}) > 0)
    assert runner.stop(timeout=10)
    assert migrator.background.status("0001_things.py").leases == ()
    runner.start()
    until(lambda: migrator.background.status("0001_things.py").status == "completed")
    assert runner.stop(timeout=10)
    assert db.things.count_documents({"n": 1}) == 500


def test_what_goes_wrong_is_told_and_does_not_end_the_runner(migrator: Migrator, db: Db) -> None:
    told: list[Exception] = []

    def on_error(error: Exception) -> None:
        told.append(error)
        raise RuntimeError("a listener that raises never breaks the run")

    migrator.up()
    db["_migronaut_background"].update_one({}, {"$set": {"unheard_of": 1}})  # a damaged record
    with BackgroundRunner(migrator, poll=0.05, on_error=on_error):
        until(lambda: len(told) > 1)
        db["_migronaut_background"].update_one({}, {"$unset": {"unheard_of": 1}})
        until(lambda: migrator.background.status("0001_things.py").status == "completed")
