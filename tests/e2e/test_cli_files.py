"""Which files the command line takes, and which database: its own settings', or the application's."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli

UP = "def up(ctx):\n    ctx.db.runs.insert_one({})\n"
PASSED = "passed over: 0002_b.PY (does not end in .py, in small letters), _helpers.py (begins with _, as helpers do)"
Db = Database[Any]


def test_up_and_status_say_which_files_they_passed_over_and_why(cli: Cli) -> None:
    cli.write("0001_a.py", UP)
    cli.write("0002_b.PY", UP)
    cli.write("_helpers.py", "")
    assert PASSED in cli("up").out
    assert PASSED in cli("background", "status").out
    told = cli("up", "--json").json["passed_over"]
    assert [each["name"] for each in told] == ["0002_b.PY", "_helpers.py"]


def test_a_status_needs_no_directory_of_files(cli: Cli) -> None:
    assert cli("background", "status").code == 0


def test_our_own_configuration_beside_the_files_is_no_migration(cli: Cli, db: Db) -> None:
    (cli.cwd / "migronaut_config.py").write_text("config = {'migrations_dir': '.'}\n")
    (cli.cwd / "0001_a.py").write_text(UP)
    done = cli("up")
    assert done.code == 0, done.err
    assert "passed over: migronaut_config.py (is the configuration)" in done.out
    assert db.runs.count_documents({}) == 1


def test_a_module_without_a_body_is_told_how_helpers_are_named(cli: Cli) -> None:
    cli.write("helpers.py", "X = 1\n")
    refused = cli("up")
    assert (refused.code, "_helpers.py" in refused.error) == (20, True)


@pytest.mark.parametrize("name", ["0001_a\tb.py", "0001_a\nb.py"])
def test_a_body_whose_name_cannot_be_kept_never_runs(cli: Cli, db: Db, name: str) -> None:
    cli.write(name, UP)
    refused = cli("up")
    assert (refused.code, "rename the file" in refused.error) == (19, True)
    assert db.runs.count_documents({}) == 0


def test_files_created_at_once_are_in_order(cli: Cli) -> None:
    made = [cli("create", name, "--json").json["path"] for name in ("b", "a")] if cli("init").code == 0 else []
    assert made == sorted(made)
    assert len(made) == 2


FACTORY = """
import os
from migronaut import Migrator

def migrator():
    return Migrator(uri=os.environ["SHOP_URI"], db=os.environ["SHOP_DB"], migrations_dir="steps")
"""


@pytest.fixture
def application(cli: Cli, mongo_uri: str, db: Db) -> Cli:
    """A project whose application says which database, while the environment says another one."""
    (cli.cwd / "shop.py").write_text(FACTORY)
    (cli.cwd / "steps").mkdir()
    (cli.cwd / "steps" / NAME).write_text(BACKGROUND)
    db.orders.insert_many([{"_id": number, "address": "x", "schema_version": 1} for number in range(20)])
    settings = {"MIGRONAUT_APP": "shop:migrator", "SHOP_URI": mongo_uri, "SHOP_DB": db.name, "MIGRONAUT_URI": mongo_uri}
    return Cli(cli.cwd, settings | {"MIGRONAUT_DB": f"{db.name}_other"})


def test_the_command_line_works_on_the_database_of_the_application(
    application: Cli, db: Db, client: MongoClient[Any]
) -> None:
    assert application("up").code == 0
    assert application("background", "run").code == 0
    assert db.orders.count_documents({"schema_version": 2}) == 20
    assert f"{db.name}_other" not in client.list_database_names()
    created = application("create", "next", "--json").json["path"]
    assert created.startswith(str(application.cwd / "steps"))


@pytest.mark.parametrize("flags", [("--db", "x"), ("--uri", "mongodb://x"), ("--dir", "x"), ("--config", "x.toml")])
def test_a_flag_that_would_be_ignored_beside_the_application_is_refused(
    application: Cli, flags: tuple[str, str]
) -> None:
    refused = application(*flags, "up")
    assert refused.code == 2
    assert f"{flags[0]} would be ignored" in refused.error
    assert "MIGRONAUT_APP" in refused.error


def test_an_application_that_cannot_make_one_is_one_sentence(application: Cli) -> None:
    (application.cwd / "shop.py").write_text(FACTORY.replace('"SHOP_DB"', '"NOWHERE"'))
    refused = application("up")
    assert refused.code == 6
    assert "KeyError" in refused.error
    assert "MIGRONAUT_APP" in refused.error
