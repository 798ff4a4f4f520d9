"""Background migrations inside a synchronous application."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from migronaut import BackgroundRunner, Migrator
from migronaut.errors import BackgroundFailedError

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


def test_each_failure_is_told_once_with_its_reason_and_the_way_on(
    migrator: Migrator, db: Db, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first, which two runners see, and the one after a retry; not one from before a runner started."""
    told: list[list[Exception]] = [[], [], []]
    looked: set[int] = set()
    active = migrator.background.active

    def noted() -> tuple[str, ...]:
        looked.add(threading.get_ident())
        return active()

    monkeypatch.setattr(migrator.background, "active", noted)
    db.things.update_one({"_id": 7}, {"$unset": {"n": 1}})
    migrator.up()
    with (
        caplog.at_level(logging.INFO, "migronaut.runner"),
        BackgroundRunner(migrator, poll=0.05, on_error=told[0].append),
        BackgroundRunner(migrator, poll=0.05, on_error=told[1].append),
    ):
        until(lambda: told[0] and told[1])
        with BackgroundRunner(migrator, poll=0.05, on_error=told[2].append):
            until(lambda: len(looked) == 3)
            migrator.background.retry("0001_things.py")
            until(lambda: all(len(each) == count for each, count in zip(told, (2, 2, 1), strict=True)))
        db.things.update_one({"_id": 7}, {"$set": {"n": 0}})
        migrator.background.retry("0001_things.py")
        until(lambda: caplog.text.count("0001_things.py is completed") == 2)
    (failure,) = told[2]
    assert isinstance(failure, BackgroundFailedError)
    assert str(failure).startswith("0001_things.py failed: 1 document could not be migrated")
    assert "The latest of them: KeyError at line" in str(failure)
    assert "retry 0001_things.py --repin" in str(failure)
    assert [len(each) for each in told] == [2, 2, 1]
    assert caplog.text.count("0001_things.py failed: ") == 5
    assert caplog.text.count("the background runner starts") == 3
    assert caplog.text.count("the background runner stops: the application stops") == 3


@pytest.mark.parametrize("kind", ["SystemExit", "CancelledError", "KeyboardInterrupt", "GeneratorExit"])
def test_a_migration_that_exits_fails_and_the_runner_goes_on(
    migrator: Migrator, tmp_path: Path, db: Db, kind: str
) -> None:
    told: list[Exception] = []
    raising = FILE.replace('doc["n"] += 1', f"raise {kind}")
    (tmp_path / "0001_things.py").write_text("from asyncio import CancelledError\n" + raising)
    (tmp_path / "0002_others.py").write_text(FILE.replace("things", "others"))
    db.others.insert_one({"n": 0})
    migrator.up()
    with BackgroundRunner(migrator, poll=0.05, on_error=told.append):
        until(lambda: migrator.background.status("0002_others.py").status == "completed" and told)
    status = migrator.background.status("0001_things.py")
    assert status.status == "failed"
    assert not status.leases
    assert f"{kind} at line" in status.errors[0].message


def test_an_on_error_that_exits_does_not_end_the_runner(migrator: Migrator, tmp_path: Path, db: Db) -> None:
    told: list[Exception] = []

    def on_error(error: Exception) -> None:
        told.append(error)
        raise SystemExit

    for number in (1, 2):
        (tmp_path / f"000{number}_things.py").write_text(FILE.replace('doc["n"] += 1', "raise ValueError"))
    with BackgroundRunner(migrator, poll=0.05, on_error=on_error):
        migrator.up("0001_things.py")
        until(lambda: len(told) == 1)
        migrator.up()
        until(lambda: len(told) == 2)


def test_a_migration_of_many_that_exits_is_given_up_after_so_many_slices(
    migrator: Migrator, tmp_path: Path, db: Db
) -> None:
    told: list[Exception] = []
    exiting = "import sys\n" + FILE.replace('doc["n"] += 1', "sys.exit(3)").replace("migrate=", "migrate_many=")
    (tmp_path / "0001_things.py").write_text(exiting.replace("max_parallel=2", "max_slice_failures=2"))
    migrator.up()
    with BackgroundRunner(migrator, poll=0.05, on_error=told.append):
        until(lambda: told)
    assert "1 partition failed 2 times in a row: SystemExit at line" in str(told[0])
