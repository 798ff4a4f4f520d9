"""The command line on a real server: the main path, machines' output, signals, and bad input."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli, interrupt

Db = Database[dict[str, Any]]


def test_from_nothing_to_a_migrated_collection(cli: Cli, db: Db) -> None:
    db.orders.insert_many([{"_id": number, "address": "x"} for number in range(50)])
    made = cli("init")
    assert made.code == 0
    assert "next:" in made.out
    created = cli("create", "orders shipping", "--background", "--json").json
    path = cli.cwd / created["path"]
    assert re.fullmatch(r"\d{14}_orders_shipping\.py", path.name)
    refused = cli("up")
    assert (refused.code, "TODO" in refused.error) == (20, True)
    path.write_text(BACKGROUND.replace("from_version=1, to_version=2", "from_version=0, to_version=1"))
    up = cli("up")
    assert up.code == 0
    assert f"{path.name}: registered" in up.out
    assert "background run" in up.out
    ran = cli("background", "run", "--concurrency", "2")
    assert ran.code == 0, ran.err
    assert "completed, 50 documents" in ran.out
    assert db.orders.count_documents({"schema_version": 1, "shipping.address": "x"}) == 50
    shown = cli("background", "status", "orders_shipping")
    assert shown.code == 0
    assert "100.0 %" in shown.out
    assert "50 migrated" in shown.out


def test_json_is_one_document_and_people_read_the_rest(orders: Cli) -> None:
    up = orders("--json", "up")
    assert up.json["results"][0]["outcome"] == "registered"
    run = orders("background", "run", "--json")
    (row,) = run.json["background"]
    assert (row["name"], row["status"], row["totals"]["migrated"]) == (NAME, "completed", 200)
    assert "completed, 200 documents" in run.err
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", row["started_at"])
    again = orders("background", "run", "--json")
    assert again.json == {"background": [], "halted": []}


def test_controls_say_what_they_did_and_what_comes_next(orders: Cli) -> None:
    orders("up")
    paused = orders("background", "pause", "orders", "--reason", "backup")
    assert "it is paused now" in paused.out
    assert "resume" in paused.out
    assert "nothing to change" in orders("background", "pause", "orders").out
    idle = orders("background", "run")
    assert f"{NAME} is paused and was not worked; `migronaut background resume {NAME}`" in idle.error
    halted = orders("background", "run", "--json").json["error"]["context"]["halted"]
    assert halted == [{"name": NAME, "outcome": "paused"}]
    resumed = orders("background", "resume", NAME).out
    assert "it is pending now" in resumed
    assert f"background run {NAME}" in resumed
    assert "background enqueue" in resumed
    assert "--queue" in resumed
    unanswered = orders("background", "cancel", NAME)
    assert (unanswered.code, "--yes" in unanswered.error) == (2, True)
    assert "cannot be undone" not in unanswered.error
    assert "retry" in unanswered.error
    assert orders("background", "cancel", NAME, "--yes", "--json").json["status"] == "cancelled"
    retried = orders("background", "retry", NAME, "--by", "ann")
    assert "it is pending now" in retried.out
    (row,) = orders("background", "status", NAME, "--json").json["background"]
    actions = [(entry["action"], entry["reason"], entry["by"]) for entry in row["history"]]
    assert [action for action, _, _ in actions] == ["register", "pause", "resume", "cancel", "retry"]
    assert actions[1][1] == "backup"
    assert actions[4][2] == "ann"
    conflict = orders("background", "resume", NAME)
    assert conflict.code == 0  # pending already: a second click is harmless
    assert orders("background", "unlock", NAME, "--yes").code == 0


def test_verify_says_what_it_did_not_look_at_and_how_to_change_that(orders: Cli) -> None:
    assert "background verify" in orders("up").out
    orders("background", "run")
    said = orders("background", "verify").out
    assert f"{NAME}: not looked at: no index {{schema_version: 1, _id: 1}}; create it with " in said
    assert "`db.orders.createIndex({schema_version: 1, _id: 1})`" in said
    assert "Nothing was looked at." in said


def test_files_that_changed_or_went_after_they_were_applied_are_named(orders: Cli) -> None:
    orders.write("0000_first.py", "def up(ctx):\n    pass\n")
    orders.write("0002_third.py", "def up(ctx):\n    pass\n")
    assert "warning" not in orders("up").out
    assert orders("up", "--json").json["altered"] == []
    orders.write("0000_first.py", "def up(ctx):\n    ctx.more()\n")
    orders.write(NAME, BACKGROUND + "# mended\n")
    (orders.cwd / "migrations" / "0002_third.py").unlink()
    said = orders("up")
    assert said.code == 0
    warnings = [line for line in said.out.splitlines() if line.startswith("warning: ")]
    assert [line.split()[1] for line in warnings] == ["0000_first.py", NAME, "0002_third.py"]
    assert f"background repin {NAME}" in warnings[1]
    facts = {each["name"]: each["fact"] for each in orders("up", "--json").json["altered"]}
    assert facts == {"0000_first.py": "changed", NAME: "changed", "0002_third.py": "missing"}
    orders("background", "repin", NAME)
    assert [each["name"] for each in orders("up", "--json").json["altered"]] == ["0000_first.py", "0002_third.py"]
    (orders.cwd / "migrations" / NAME).unlink()
    assert "the file is not on this machine" in " ".join(orders("background", "status").out.split())


def test_drift_is_found_and_has_its_exit_code(orders: Cli, db: Db) -> None:
    db.orders.create_index([("schema_version", 1), ("_id", 1)])
    orders("up")
    orders("background", "run")
    assert orders("background", "verify").code == 0
    db.orders.insert_one({"_id": "late", "address": "x", "schema_version": 1})
    found = orders("background", "verify")
    assert (found.code, "old shape" in found.error) == (31, True)
    assert orders("background", "run").code == 0
    assert db.orders.count_documents({"schema_version": 1}) == 0


def test_a_failed_migration_says_why_and_names_no_document(orders: Cli, db: Db) -> None:
    db.orders.insert_one({"_id": "SECRET-ID", "schema_version": 1, "other": "SECRET-CONTENT"})
    orders("up")
    failed = orders("background", "run")
    assert failed.code == 32
    assert "1 document could not be migrated" in failed.error
    assert f"background retry {NAME} --repin" in failed.error
    assert "?." not in failed.error
    assert (failed.out + failed.err).count("could not be migrated") == 1, "a failure is told once"
    assert (failed.out + failed.err).count(f"{NAME} failed") == 1
    assert "The latest of them: KeyError at line" in failed.error
    again = orders("background", "run")
    assert (again.code, again.out) == (32, "")
    assert again.error == failed.error.replace("error: ", "error: Nothing was worked. ")
    assert "migrated in" not in failed.out
    shown = orders("background", "status", NAME)
    assert "KeyError" in shown.out
    assert f"retry {NAME} --repin" in " ".join(shown.out.split())
    assert "1 running" not in shown.out
    for text in (failed.out, failed.err, shown.out, orders("background", "status", NAME, "--json").out):
        assert "SECRET" not in text
    assert db["_migronaut_background"].count_documents({"bad_ids": "SECRET-ID"}) == 1


def test_the_first_signal_stops_at_a_batch_and_the_work_can_go_on(orders: Cli, db: Db) -> None:
    orders.write(NAME, BACKGROUND.replace("pause=0", "pause=0.2, batch_size=10"))
    orders("up")
    process = orders.start("background", "run")
    deadline = time.monotonic() + 30
    while not db.orders.count_documents({"schema_version": 2}) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    interrupt(process)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 11, err
    assert 0 < db.orders.count_documents({"schema_version": 2}) < 200
    assert db["_migronaut_background_partitions"].count_documents({"lease": {"$exists": True}}) == 0
    assert orders("background", "run").code == 0
    assert db.orders.count_documents({"schema_version": 2}) == 200


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("def up(ctx)\n    pass\n", "line 1"),
        ("value = 1\n", "background = Background"),
        (BACKGROUND + "\ndef up(ctx):\n    pass\n", "up"),
        (BACKGROUND.replace("pause=0", "puase=0"), "puase"),
        (BACKGROUND.replace("pause=0", "adaptive=True"), "not supported yet"),
    ],
)
def test_a_file_that_cannot_be_used(
    cli: Cli, client: MongoClient[dict[str, Any]], db: Db, text: str, word: str
) -> None:
    cli.write(NAME, text)
    called = cli("up")
    assert called.code == 20
    assert word in called.error
    assert db.name not in client.list_database_names()


def test_names_that_mean_nothing_or_too_much(orders: Cli) -> None:
    orders.write("0002_orders_again.py", BACKGROUND)
    assert orders("background", "status", "nothing").code == 9
    assert f"Did you mean '{NAME}'" in orders("up", "odrers").error
    orders("up")
    several = orders("background", "pause", "orders")
    assert (several.code, "several" in several.error) == (2, True)
    assert orders("background", "run", "nothing").code == 9
    assert "Did you mean '0002_orders_again.py'" in orders("background", "run", "ordersagain").error


def test_an_unreachable_server_is_told_within_five_seconds_without_credentials(cli: Cli) -> None:
    cli.write(NAME, BACKGROUND)
    began = time.monotonic()
    cli("--version")
    started = time.monotonic()  # what a busy machine takes to start any command is not counted
    called = cli("up", MIGRONAUT_URI="mongodb://bob:hunter2@127.0.0.1:9/")
    assert time.monotonic() - started < 5 + (started - began)
    assert called.code == 5
    assert "hunter2" not in called.error


def test_a_user_without_permission_is_told_so_and_nothing_is_changed(
    cli: Cli, client: MongoClient[dict[str, Any]], db: Db
) -> None:
    cli.write(NAME, BACKGROUND)
    refusal = {"failCommands": ["find", "insert", "findAndModify"], "errorCode": 13}
    client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=refusal)
    try:
        called = cli("up")
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert (called.code, "no permission" in called.error) == (5, True)
    assert db.name not in client.list_database_names()


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "word"),
    [
        (("up",), {"MIGRONAUT_URI": "postgres://bob:hunter2@db"}, 6, "mongodb://"),
        (("up",), {"MIGRONAUT_URI": "mongodb://bob:hun@ter2@:x/?bad=1"}, 6, "URI"),
        (("up",), {"MIGRONAUT_URL": "mongodb://localhost"}, 6, "MIGRONAUT_URI"),
        (("up",), {"MIGRONAUT_DB": "a/b"}, 6, "database"),
        (("--config", "none.toml", "up"), {}, 6, "none.toml"),
        (("explode",), {}, 2, "explode"),
        (("background", "enqueue"), {}, 2, "--queue"),
        (("background", "run", "--concurrency", "0"), {}, 2, "concurrency"),
        (("worker", "--queue", "rq"), {}, 6, "MIGRONAUT_REDIS_URL"),
        (("worker", "--queue", "rq", "--broker-url", "redis://127.0.0.1:9/0"), {}, 5, "127.0.0.1:9"),
        (("worker", "--queue", "dramatiq", "--broker-url", "redis://127.0.0.1:9/0"), {}, 5, "127.0.0.1:9"),
        (("background", "enqueue", "--queue", "rq"), {}, 6, "--broker-url"),
        (("demo", "--documents", "0"), {}, 2, "documents"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, arguments: tuple[str, ...], settings: dict[str, str], code: int, word: str
) -> None:
    cli.write(NAME, BACKGROUND)
    called = cli(*arguments, **settings)
    assert called.code == code, called.err
    assert word in called.error
    assert "hunter2" not in called.error


def test_no_panel_and_no_table_beside_the_document_of_a_machine(orders: Cli) -> None:
    orders("up")
    for arguments in (("status",), ("status", NAME), ("run",), ("status", NAME, "--watch"), ("verify",)):
        called = orders("background", *arguments, "--json")
        assert called.code == 0
        assert called.json
        assert not set(called.err) & set("╭─━│╰"), called.err


def test_a_failure_in_json(cli: Cli) -> None:
    called = cli("background", "status", "nothing", "--json")
    assert called.code == 9
    assert called.json["error"]["code"] == "not-registered"
    assert called.json["results"] == []


def test_an_unknown_setting_in_the_file_is_named_with_its_place(cli: Cli) -> None:
    (cli.cwd / "migronaut.toml").write_text('urii = "mongodb://bob:hunter2@db"\n')
    called = cli("up")
    assert called.code == 6
    assert "urii" in called.error
    assert "hunter2" not in called.error


def test_two_runs_at_once_one_waits_for_the_other_or_is_refused(cli: Cli, db: Db) -> None:
    cli.write("0001_slow.py", "def up(ctx):\n    ctx.db.started.insert_one({})\n    ctx.stop.wait(30)\n")
    first = cli.start("up")
    deadline = time.monotonic() + 30
    while not db.started.count_documents({}) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    second = cli("up")
    assert (second.code, "Another run" in second.error) == (3, True)
    interrupt(first)
    first.communicate(timeout=20)
    assert first.returncode == 0  # the one file it had was through
    assert db.started.count_documents({}) == 1
    assert json.loads(cli("up", "--json").out) == {"results": [], "altered": [], "lost": [], "passed_over": []}


def test_help_teaches_every_command(cli: Cli) -> None:
    for command in ("init", "create", "up", "background", "worker", "demo"):
        shown = cli(command, "--help")
        assert shown.code == 0
        assert len(shown.out.splitlines()) > 5
