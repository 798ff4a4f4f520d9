"""`up` on a real server: order, lock, changelog, and what is refused before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from migronaut import Migrator
from migronaut.core.ports import Owner
from migronaut.core.state import Direction
from migronaut.engine.stopping import StopEvent
from migronaut.errors import (
    BackgroundPendingError,
    InvalidMigrationError,
    LockHeldError,
    MigrationFailedError,
    MigrationNotFoundError,
    RunAbortedError,
    TransactionsUnsupportedError,
)
from migronaut.mongo.locks import MongoLocks

Db = Database[dict[str, Any]]
Write = Callable[[str, str], None]

BACKGROUND = '''"""Orders get shipping."""
from migronaut import Background

def migrate(doc):
    doc["shipping"] = {"address": doc.pop("address")}
    return doc

background = Background(collection="orders", from_version=1, to_version=2, migrate=migrate, pause=0)
'''


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)

    return writer


@pytest.fixture
def migrator(client: MongoClient[dict[str, Any]], db: Db, tmp_path: Path) -> Migrator:
    return Migrator(client=client, db=db.name, migrations_dir=tmp_path, environment="test")


def note(name: str) -> str:
    return (
        f'"""Note {name}."""\ndef up(ctx):\n    ctx.db.notes.insert_one({{"name": {name!r}, "batch": ctx.run.batch}})\n'
    )


def test_pending_files_run_in_order_and_are_recorded(migrator: Migrator, db: Db, write: Write) -> None:
    write("0002_b.py", note("b"))
    write("0001_a.py", note("a"))
    rows = migrator.up(requested_by="ann", reason="release 7")
    assert [(row.name, row.outcome) for row in rows] == [("0001_a.py", "applied"), ("0002_b.py", "applied")]
    assert [doc["name"] for doc in db.notes.find().sort("_id")] == ["a", "b"]
    record = db["_migronaut_migrations"].find_one({"name": "0001_a.py"})
    assert record is not None
    assert {
        key: record[key] for key in ("status", "batch", "environment", "requested_by", "reason", "description")
    } == {
        "status": "applied",
        "batch": 1,
        "environment": "test",
        "requested_by": "ann",
        "reason": "release 7",
        "description": "Note a.",
    }
    assert migrator.up() == ()
    assert db["_migronaut_locks"].count_documents({}) == 0


def test_a_background_file_is_registered_in_its_place_and_run_later(migrator: Migrator, db: Db, write: Write) -> None:
    db.orders.insert_many([{"_id": number, "address": "x", "schema_version": 1} for number in range(20)])
    write("0001_a.py", note("a"))
    write("0002_orders.py", BACKGROUND)
    rows = migrator.up()
    assert [row.outcome for row in rows] == ["applied", "registered"]
    assert rows[1].advice is not None
    assert "createIndex" in rows[1].advice
    assert db.orders.count_documents({"schema_version": 2}) == 0
    (status,) = migrator.background.run()
    assert status.status == "completed"
    assert db.orders.count_documents({"schema_version": 2, "shipping.address": "x"}) == 20
    record = db["_migronaut_migrations"].find_one({"name": "0002_orders.py"})
    assert record is not None
    assert record["kind"] == "background"


def test_the_first_failure_stops_the_line_and_shows_as_failed(migrator: Migrator, db: Db, write: Write) -> None:
    write("0001_a.py", note("a"))
    write("0002_b.py", "def up(ctx):\n    raise ValueError('mongodb://bob:secret@db')\n")
    write("0003_c.py", note("c"))
    with pytest.raises(MigrationFailedError) as caught:
        migrator.up()
    assert "secret" not in str(caught.value)
    assert [row["name"] for row in caught.value.context["results"]] == ["0001_a.py"]
    assert db.notes.count_documents({}) == 1
    statuses = {doc["name"]: doc["status"] for doc in db["_migronaut_migrations"].find()}
    assert statuses == {"0001_a.py": "applied", "0002_b.py": "failed"}
    write("0002_b.py", note("b"))
    assert [row.name for row in migrator.up()] == ["0002_b.py", "0003_c.py"]
    record = db["_migronaut_migrations"].find_one({"name": "0002_b.py"})
    assert record is not None
    assert (record["status"], record["batch"], "error" in record) == ("applied", 2, False)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("ctx['SECRET']", "TypeError at line 5 of inner()"),
        ("json.loads('SECRET')", "JSONDecodeError at line 5 of inner()"),
        ("sys.exit('SECRET')", "SystemExit at line 5 of inner()"),
        ("raise asyncio.CancelledError('SECRET')", "CancelledError at line 5 of inner()"),
        ("raise KeyboardInterrupt('SECRET')", "KeyboardInterrupt at line 5 of inner()"),
    ],
)
def test_what_a_body_raises_is_told_by_its_kind_and_its_line_in_the_file(
    migrator: Migrator, db: Db, write: Write, body: str, told: str
) -> None:
    write(
        "0001_a.py", f"import asyncio, json, sys\n\n\ndef inner(ctx):\n    {body}\n\n\ndef up(ctx):\n    inner(ctx)\n"
    )
    with pytest.raises(MigrationFailedError) as caught:
        migrator.up()
    assert f"0001_a.py failed: {told}. " in str(caught.value)
    (record,) = db["_migronaut_migrations"].find()
    assert (record["status"], record["error"]) == ("failed", told)
    assert "SECRET" not in str(caught.value) + str(record)


def test_what_cannot_be_registered_is_told_with_the_name_of_its_file(
    standalone_db: Db, tmp_path: Path, write: Write
) -> None:
    write("0001_a.py", note("a"))
    write("0002_b.py", BACKGROUND)
    with pytest.raises(TransactionsUnsupportedError) as caught:
        Migrator(client=standalone_db.client, db=standalone_db.name, migrations_dir=tmp_path).up()
    assert str(caught.value).startswith("0002_b.py: ")
    assert caught.value.context["name"] == "0002_b.py"
    assert [row["name"] for row in caught.value.context["results"]] == ["0001_a.py"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("def up(ctx)\n    pass\n", "line 1"),
        ("x = 1\n", "up"),
        (BACKGROUND + "\ndef up(ctx):\n    pass\n", "background"),
        ("use_transaction = True\ndef up(ctx):\n    pass\n", "not supported yet"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_written(
    migrator: Migrator, client: MongoClient[dict[str, Any]], db: Db, write: Write, text: str, word: str
) -> None:
    write("0001_a.py", note("a"))
    write("0002_bad.py", text)
    with pytest.raises(InvalidMigrationError, match=word):
        migrator.up()
    assert db.name not in client.list_database_names()


def test_an_unknown_name_is_refused(migrator: Migrator, write: Write) -> None:
    write("0001_a.py", note("a"))
    with pytest.raises(MigrationNotFoundError):
        migrator.up("0009_z.py")


def test_two_runs_at_once_one_is_refused_and_told_who_holds_the_lock(
    migrator: Migrator, client: MongoClient[dict[str, Any]], db: Db, tmp_path: Path, write: Write
) -> None:
    write("0001_a.py", note("a"))
    locks = MongoLocks(db)
    nonce = locks.acquire("migronaut", owner=Owner(name="ann", host="box", pid=7), ttl=60)
    assert nonce is not None
    with pytest.raises(LockHeldError, match=r"ann .*died ends by itself, lock_ttl \(60 s\) after"):
        migrator.up()
    assert db.notes.count_documents({}) == 0
    waiting = Migrator(client=client, db=db.name, migrations_dir=tmp_path, on_lock_held="wait")
    done = threading.Event()
    thread = threading.Thread(target=lambda: (waiting.up(), done.set()))
    thread.start()
    assert not done.wait(0.3)
    locks.release("migronaut", nonce)
    assert done.wait(20)
    thread.join()
    assert db.notes.count_documents({}) == 1


def test_a_stop_ends_the_line_after_the_current_file(migrator: Migrator, db: Db, write: Write) -> None:
    stop = StopEvent()
    write("0001_a.py", note("a"))
    write("0002_b.py", note("b"))
    stop.set("signal")
    with pytest.raises(RunAbortedError) as caught:
        migrator.up(stop=stop)
    assert caught.value.exit_code == 11
    assert db.notes.count_documents({}) == 0


def test_an_ordinary_file_waits_for_the_background_one_it_requires(migrator: Migrator, db: Db, write: Write) -> None:
    db.orders.insert_one({"address": "x", "schema_version": 1})
    write("0001_orders.py", BACKGROUND)
    write("0002_after.py", 'requires = ["0001_orders.py"]\n' + note("after"))
    with pytest.raises(BackgroundPendingError, match="0001_orders"):
        migrator.up()
    migrator.background.run()
    assert [row.name for row in migrator.up()] == ["0002_after.py"]
    assert db.notes.count_documents({}) == 1


def test_an_ordinary_file_does_not_run_behind_one_that_was_reverted(migrator: Migrator, db: Db, write: Write) -> None:
    """Its body would destroy what the way back has restored."""
    back = "def revert(doc):\n    return {**doc, 'address': 'back'}\n\nbackground = Background("
    write(
        "0001_orders.py",
        BACKGROUND.replace("background = Background(", back).replace("pause=0", "pause=0, revert=revert"),
    )
    db.orders.insert_one({"address": "x", "schema_version": 1})
    migrator.up()
    migrator.background.run()
    migrator.background.register("0001_orders.py", direction=Direction.REVERT)
    migrator.background.run()
    assert db.orders.count_documents({"address": "back", "schema_version": 1}) == 1
    write("0002_after.py", 'requires = ["0001_orders.py"]\ndef up(ctx):\n    ctx.db.orders.drop()\n')
    with pytest.raises(BackgroundPendingError, match=r"0002_after.py waits for 0001_orders.py, which was reverted"):
        migrator.up()
    assert db.orders.count_documents({}) == 1


def test_an_ordinary_file_does_not_run_while_the_old_shape_exists_again(
    migrator: Migrator, db: Db, write: Write
) -> None:
    db.orders.insert_one({"address": "x", "schema_version": 1})
    write("0001_orders.py", BACKGROUND)
    migrator.up()
    migrator.background.run()
    db.orders.insert_one({"address": "late", "schema_version": 1})
    write("0002_after.py", 'requires = ["0001_orders.py"]\n' + note("after"))
    with pytest.raises(BackgroundPendingError, match=r"0002_after.py waits for 0001_orders.py, which is running"):
        migrator.up()
    assert db.notes.count_documents({}) == 0
    migrator.background.run()
    migrator.up()
    assert db.notes.count_documents({}) == 1


def test_an_ordinary_file_can_only_require_a_background_one(migrator: Migrator, write: Write) -> None:
    write("0001_first.py", note("first"))
    write("0002_after.py", 'requires = ["0001_first.py"]\n' + note("after"))
    with pytest.raises(InvalidMigrationError, match="which is no background migration"):
        migrator.up()
