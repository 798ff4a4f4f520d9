"""What a server or a collection does not do: said by ``up``, ``background run`` and ``status``, with exit codes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli

Db = Database[dict[str, Any]]
BY_PREDICATE = BACKGROUND.replace("from_version=1, to_version=2", 'filter={"shipping": {"$exists": False}}')
KEYS = [("schema_version", 1), ("_id", 1)]


@contextmanager
def no_table_scans(client: MongoClient[Any]) -> Iterator[None]:
    client.admin.command("setParameter", 1, notablescan=True)
    try:
        yield
    finally:
        client.admin.command("setParameter", 1, notablescan=False)


def test_a_server_that_scans_no_collection_is_worked_from_up_to_verify(orders: Cli, db: Db) -> None:
    orders.write(NAME, BY_PREDICATE)
    with no_table_scans(db.client):
        for command in (("up",), ("background", "run"), ("background", "verify"), ("background", "status")):
            called = orders(*command)
            assert called.code == 0, called.err
        orders.write("0002_note.py", f"requires = ['{NAME}']\ndef up(ctx):\n    ctx.db.notes.insert_one({{}})\n")
        assert orders("up").code == 0
    assert db.orders.count_documents({"shipping.address": "x"}) == 200


def test_a_capped_collection_is_refused_by_up(cli: Cli, db: Db) -> None:
    db.create_collection("orders", capped=True, size=100_000)
    cli.write(NAME, BACKGROUND)
    up = cli("up")
    assert up.code == 20
    assert f"{NAME}: The migration cannot be done here: orders is a capped collection" in up.error
    assert 'guard="revision"' in up.error


def test_a_collection_that_became_a_view_fails_the_migration_with_the_reason(orders: Cli, db: Db) -> None:
    assert orders("up").code == 0
    db.orders.rename("others")
    db.command("create", "orders", viewOn="others", pipeline=[])
    ran = orders("background", "run")
    assert ran.code == 32
    assert f"{NAME} failed: The migration cannot be done here: orders is a view" in ran.error
    assert "did not answer" not in ran.error
    db.orders.drop()
    db.others.rename("orders")
    assert orders("background", "retry", NAME).code == 0
    assert orders("background", "run").code == 0


def test_a_collection_that_does_not_exist_is_said_by_up_and_in_the_result(cli: Cli) -> None:
    cli.write(NAME, BACKGROUND.replace('"orders"', '"ordres"'))
    up = cli("up")
    assert (up.code, "hint: The collection ordres does not exist (yet); is its name right?" in up.out) == (0, True)
    said = "the collection ordres does not exist (yet); is its name right?"
    assert said in cli("background", "status").out
    ran = cli("background", "run")
    assert (ran.code, said in ran.out) == (0, True)
    assert cli("background", "status", NAME, "--json").json["background"][0]["note"] == said


def test_a_collection_that_vanishes_under_a_run_is_said_in_the_result(orders: Cli, db: Db) -> None:
    orders.write(NAME, BACKGROUND.replace("pause=0", "pause=0.2, batch_size=10"))
    assert orders("up").code == 0
    process = orders.start("background", "run")
    seen = threading.Event()
    while not db.orders.count_documents({"schema_version": 2}):
        seen.wait(0.02)
    db.orders.rename("others")
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    said = "the collection orders is gone: it was dropped or renamed before the migration was through"
    assert said in out
    assert said in orders("background", "status", NAME, COLUMNS="200").out
    migrated = db.others.count_documents({"schema_version": 2})
    assert f"{NAME}: completed, {migrated} documents migrated in" in out


@pytest.mark.parametrize("when", ["before", "verify"])
def test_an_index_that_is_being_built_hurts_nobody(orders: Cli, db: Db, when: str) -> None:
    assert orders("up").code == 0
    if when == "verify":
        assert orders("background", "run").code == 0
    db.client.admin.command("configureFailPoint", "hangAfterStartingIndexBuild", mode="alwaysOn")
    build = threading.Thread(target=lambda: db.orders.create_index(KEYS), daemon=True)
    build.start()
    try:
        while len(list(db.orders.list_indexes())) < 2:
            build.join(0.01)
        if when == "before":
            assert orders("background", "run").code == 0
        verified = orders("background", "verify")
        assert (verified.code, "no index" in verified.out) == (0, True)
    finally:
        db.client.admin.command("configureFailPoint", "hangAfterStartingIndexBuild", mode="off")
        build.join(30)
    verified = orders("background", "verify")
    assert (verified.code, f"{NAME}: clean" in verified.out) == (0, True)


def test_an_error_of_the_server_is_not_told_as_silence(orders: Cli, db: Db) -> None:
    assert orders("up").code == 0
    data = {"errorCode": 96, "failCommands": ["aggregate"]}
    db.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
    try:
        ran = orders("background", "run")
    finally:
        db.client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert ran.code == 32
    assert f"{NAME} failed: MongoDB refused it: server error 96 (OperationFailed)" in ran.error
    data = {"errorCode": 96, "failCommands": ["find"]}
    db.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
    try:
        listed = orders("background", "status")
    finally:
        db.client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert (listed.code, "refused what it was asked to do (server error 96" in listed.error) == (1, True)
