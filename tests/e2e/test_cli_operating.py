"""The command line when things around it go wrong, and the settings it hands to workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli, interrupt
from migronaut import Migrator
from migronaut.embedded import EmbeddedValkey
from migronaut.errors import UsageError

Db = Database[dict[str, Any]]
DOCUMENTS = 100
FULL = Path("/dev/full")
SLOW = BACKGROUND.replace("pause=0", "pause=1, batch_size=10")


@pytest.fixture
def cli(tmp_path: Path, mongo_uri: str, db: Db) -> Cli:
    join = "&" if "?" in mongo_uri else "?"
    return Cli(tmp_path, {"MIGRONAUT_URI": f"{mongo_uri}{join}appName={db.name}", "MIGRONAUT_DB": db.name})


@pytest.fixture
def orders(cli: Cli, db: Db) -> Cli:
    """A project with a registered, slow background migration."""
    cli.write(NAME, SLOW)
    db.orders.insert_many([{"_id": number, "address": "x", "schema_version": 1} for number in range(DOCUMENTS)])
    assert cli("up").code == 0
    return cli


def some_are_migrated(db: Db) -> None:
    deadline = time.monotonic() + 30
    while not db.orders.count_documents({"schema_version": 2}):
        assert time.monotonic() < deadline, "nothing was migrated within 30 seconds"


def test_a_run_sits_out_a_failover_that_the_display_sees_too(
    orders: Cli, client: MongoClient[dict[str, Any]], db: Db
) -> None:
    process = orders.start("background", "run")
    some_are_migrated(db)
    away = {"failCommands": ["find", "aggregate"], "errorCode": 89, "appName": db.name}
    before = client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=away)["count"]
    try:
        client.admin.command("waitForFailPoint", "failCommand", timesEntered=before + 12, maxTimeMS=30_000)
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")
    out, err = process.communicate(timeout=50)
    assert process.returncode == 0, err
    assert "completed" in out
    assert db.orders.count_documents({"schema_version": 2}) == DOCUMENTS


def test_a_run_whose_migration_is_cancelled_by_somebody_is_no_success(orders: Cli, db: Db) -> None:
    process = orders.start("background", "run", "--json")
    some_are_migrated(db)
    assert orders("background", "cancel", NAME, "--yes").code == 0
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 11
    assert json.loads(out)["results"] == [{"name": NAME, "outcome": "cancelled"}]
    again = orders("background", "run", NAME)
    assert (again.code, "cancelled" in again.out, "retry" in again.out) == (0, True, True)


def test_an_interrupted_wait_does_not_deny_what_was_done(orders: Cli, db: Db) -> None:
    lane = orders.start("background", "run")
    some_are_migrated(db)
    lane.send_signal(signal.SIGSTOP)
    try:
        waiting = orders.start("background", "pause", NAME, "--wait")
        deadline = time.monotonic() + 30
        while orders("background", "status", NAME, "--json").json["background"][0]["status"] != "paused":
            assert time.monotonic() < deadline
        interrupt(waiting)
        _, err = waiting.communicate(timeout=20)
    finally:
        lane.send_signal(signal.SIGCONT)
    lane.communicate(timeout=30)
    assert waiting.returncode == 11, err
    assert "Nothing was done" not in err
    assert "Traceback" not in err


def test_up_takes_a_part_of_a_name_that_means_one_file(cli: Cli) -> None:
    cli.write("0001_one.py", "def up(ctx):\n    pass\n")
    cli.write("0002_two.py", "def up(ctx):\n    pass\n")
    several = cli("up", "00")
    assert (several.code, "0002_two.py" in several.error) == (2, True)
    none = cli("up", "three")
    assert (none.code, "three" in none.error, "migronaut list" in none.error) == (8, True, False)
    assert cli("up", "two", "--json").json["results"][0]["name"] == "0002_two.py"
    assert cli("up", "0001_one", "--json").json["results"][0]["name"] == "0001_one.py"


def test_a_body_that_raises_is_quoted_with_verbose_alone(cli: Cli) -> None:
    cli.write("0001_one.py", "def up(ctx):\n    {}['customer']\n")
    failed = cli("up")
    assert (failed.code, "0001_one.py failed: KeyError at line 2 of up(). " in failed.error) == (7, True)
    assert "customer" not in failed.out + failed.err
    assert "--verbose" in failed.error
    assert "KeyError: 'customer'" in cli("up", "--verbose").err


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["--json background status", "background status", "--json up nonsense", "--help"])
def test_an_output_that_cannot_be_written_is_one_sentence(orders: Cli, command: str) -> None:
    with FULL.open("w") as full:
        ended = orders.start(*command.split(), stdout=full)
        _, err = ended.communicate(timeout=60)
    assert (ended.returncode, len(err.splitlines())) == (1, 1), err
    assert err.startswith("error: The output cannot be written (No space left on device)")


@pytest.mark.parametrize("command", [("--json", "background", "status"), ("background", "status")])
def test_a_reader_that_has_gone_is_one_sentence(orders: Cli, command: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = orders.start(*command, stdout=write)
    os.close(write)
    _, err = ended.communicate(timeout=60)
    assert (ended.returncode, err.splitlines()) == (
        1,
        ["error: The output cannot be written (Broken pipe); what was done before stays done."],
    )


def test_a_closed_client_is_told_as_that(cli: Cli, mongo_uri: str, db: Db) -> None:
    client = MongoClient[dict[str, Any]](mongo_uri)
    (cli.cwd / "migrations").mkdir()
    migrator = Migrator(client=client, db=db.name, migrations_dir=cli.cwd / "migrations")
    client.close()
    for ask in (migrator.up, migrator.background.names, migrator.background.run):
        with pytest.raises(UsageError, match="client was closed"):
            ask()


def test_up_gives_its_advice_to_machines_too(cli: Cli) -> None:
    cli.write(NAME, BACKGROUND)
    (row,) = cli("up", "--json").json["results"]
    assert "createIndex" in row["advice"]


def test_processes_of_a_worker_work_by_the_settings_the_command_was_given(
    cli: Cli, db: Db, mongo_uri: str, valkey: EmbeddedValkey
) -> None:
    """A file elsewhere and an env file: neither is where a worker would look by itself."""
    db.orders.insert_many([{"_id": number, "address": "x", "schema_version": 1} for number in range(20)])
    place = cli.cwd / "conf"
    (place / "migrations").mkdir(parents=True)
    (place / "migrations" / NAME).write_text(BACKGROUND)
    (place / "shop.toml").write_text(f'uri = "{mongo_uri}"\ndb = "{db.name}"\nbackground_collection = "elsewhere"\n')
    (place / "queue.env").write_text(f"MIGRONAUT_REDIS_URL={valkey.url}\nMIGRONAUT_QUEUE=of-the-shop\n")
    settings = ("--config", "conf/shop.toml", "--env-file", "conf/queue.env")
    shop = Cli(cli.cwd, {})
    assert shop(*settings, "up").code == 0
    worker = shop.start(*settings, "worker", "--queue", "rq", "--processes", "2")
    try:
        assert shop(*settings, "background", "enqueue", "--queue", "rq").code == 0
        deadline = time.monotonic() + 60
        while db.orders.count_documents({"schema_version": 2}) < 20 and time.monotonic() < deadline:
            assert worker.poll() is None
    finally:
        worker.send_signal(signal.SIGTERM)
        _, err = ended(worker)
    assert db.orders.count_documents({"schema_version": 2}) == 20, err
    assert "_migronaut_background" not in db.list_collection_names()
    assert worker.returncode == 0, err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_no_worker_process_of_dramatiq_outlives_its_killed_main_process(orders: Cli, valkey: EmbeddedValkey) -> None:
    worker = orders.start("worker", "--queue", "dramatiq", "--processes", "2", "--broker-url", valkey.url)
    assert worker.stderr is not None
    ready = 0
    while ready < 2:
        line = worker.stderr.readline()
        assert line, "the worker ended by itself"
        ready += "Worker process is ready for action" in line
    worker.kill()
    ended(worker)  # the pipes close when the last of them is gone


def test_a_second_enqueue_without_any_worker_does_not_speak_of_work(orders: Cli, valkey: EmbeddedValkey) -> None:
    enqueue = ("background", "enqueue", "--queue", "rq", "--broker-url", valkey.url)
    assert orders(*enqueue, MIGRONAUT_QUEUE="nobody-works-here").out == f"{NAME}: enqueued\n"
    assert orders(*enqueue, MIGRONAUT_QUEUE="nobody-works-here").out == f"{NAME}: enqueued already\n"


def ended(worker: subprocess.Popen[str]) -> tuple[str, str]:
    """How it ended; its children are in its session's groups, so all is over when the pipes are closed."""
    try:
        return worker.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        raise
