"""``background run`` where not all can be worked: another file, failures of before, old releases that still write."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli

Db = Database[dict[str, Any]]
OTHER = "0002_others.py"
DIFFERS = f"the file differs from the registered one; `migronaut background repin {NAME}` uses the file as it is now"


@pytest.fixture
def orders(orders: Cli) -> Cli:
    """The same, and the migration is registered."""
    assert orders("up").code == 0
    return orders


def test_a_named_migration_whose_file_differs_is_refused_until_it_is_pinned(orders: Cli, db: Db) -> None:
    orders.write(NAME, BACKGROUND + "# mended\n")
    refused = orders("background", "run", NAME, timeout=30)
    assert (refused.code, refused.error) == (4, f"error: {NAME} cannot be worked here: {DIFFERS}.")
    assert "migrated in" not in refused.out
    assert db.orders.count_documents({"schema_version": 2}) == 0
    assert orders("background", "repin", NAME).code == 0
    assert orders("background", "run", NAME).code == 0
    assert db.orders.count_documents({"schema_version": 2}) == 200


def test_the_others_are_worked_when_a_file_differs(orders: Cli, db: Db) -> None:
    orders.write(OTHER, BACKGROUND.replace("orders", "others"))
    db.others.insert_one({"address": "x", "schema_version": 1})
    orders.write("0003_later.py", f"requires = ['{NAME}']\n" + BACKGROUND)
    assert orders("up").code == 0
    orders.write(NAME, BACKGROUND + "# mended\n")
    ran = orders("background", "run", "--json", timeout=30)
    assert ran.code == 4
    assert ran.json["error"]["code"] == "checksum-mismatch"
    assert ran.json["error"]["context"]["halted"] == [{"name": NAME, "outcome": "pending", "notice": DIFFERS}]
    outcomes = {row["name"]: row["outcome"] for row in ran.json["results"]}
    assert outcomes == {NAME: "pending", OTHER: "completed", "0003_later.py": "blocked"}
    assert db.others.count_documents({"schema_version": 2}) == 1


def test_a_missing_file_ends_the_run(orders: Cli) -> None:
    (orders.cwd / "migrations" / NAME).unlink()
    refused = orders("background", "run", NAME, timeout=30)
    assert (refused.code, "the file is not on this machine" in refused.error) == (4, True)


def test_a_retry_with_another_file_suggests_to_pin_it_first(orders: Cli) -> None:
    orders.write(NAME, BACKGROUND.replace('doc.pop("address")', "1 / 0"))
    assert orders("background", "repin", NAME).code == 0
    assert orders("background", "run").code == 32
    orders.write(NAME, BACKGROUND)
    retried = orders("background", "retry", NAME)
    assert (retried.code, DIFFERS in retried.out) == (0, True)
    assert f"next: `migronaut background repin {NAME}`, then `migronaut background run {NAME}`" in retried.out
    shown = orders("background", "status", NAME, "--json").json["background"][0]
    assert (shown["status"], shown["file"], shown["notice"]) == ("pending", "changed", DIFFERS)
    assert DIFFERS in " ".join(orders("background", "status").out.split())
    repinned = orders("background", "retry", NAME, "--repin")
    assert "the file on disk is the registered one now; it is pending, so that it needed no retry" in repinned.out
    assert orders("background", "run").code == 0


def test_nothing_to_work_but_a_failure_is_no_success(orders: Cli, db: Db) -> None:
    db.orders.insert_one({"schema_version": 1})
    assert orders("background", "run").code == 32
    again = orders("background", "run", "--json")
    assert (again.code, again.json["error"]["code"]) == (32, "background-failed")
    assert again.json["error"]["context"]["halted"] == [{"name": NAME, "outcome": "failed"}]
    assert f"{NAME} failed: 1 document could not be migrated" in again.json["error"]["message"]


def test_nothing_to_work_because_somebody_ended_it_is_a_success(orders: Cli) -> None:
    assert orders("background", "cancel", NAME, "--yes").code == 0
    ran = orders("background", "run")
    assert (ran.code, "has work to do" in ran.out) == (0, True)


@pytest.mark.parametrize("named", [(), (NAME,)])
def test_a_paused_one_is_not_worked_and_that_is_no_success(orders: Cli, named: tuple[str, ...]) -> None:
    assert orders("background", "pause", NAME).code == 0
    ran = orders("background", "run", *named)
    assert (ran.code, ran.error) == (
        33,
        f"error: {NAME} is paused and was not worked; `migronaut background resume {NAME}` goes on with it.",
    )
    assert orders("background", "resume", NAME).code == 0
    assert orders("background", "run", *named).code == 0


def test_an_old_release_that_still_writes_is_not_told_to_mend_the_file(orders: Cli, db: Db) -> None:
    """The migration itself writes old documents, as an old release would, after every pass."""
    orders.write(
        NAME,
        BACKGROUND.replace(
            "def migrate(doc):",
            f"""from pymongo import MongoClient

def migrate(doc):
    MongoClient("{orders.settings["MIGRONAUT_URI"]}")["{db.name}"].orders.insert_one(
        {{"_id": -1 - doc["hits"], "hits": doc["hits"] + 1, "address": "x", "schema_version": 1}}
    )""",
        ).replace("pause=0", "pause=0, max_passes=2"),
    )
    db.orders.delete_many({})
    db.orders.insert_one({"_id": 0, "hits": 0, "address": "x", "schema_version": 1})
    assert orders("background", "repin", NAME).code == 0
    ran = orders("background", "run")
    way_on = f"make sure that no old release writes them any more, then `migronaut background retry {NAME}`"
    assert ran.code == 32
    assert f"old-shape documents keep appearing after 2 passes; {way_on}" not in ran.error
    assert f"To go on, {way_on} and `migronaut background run {NAME}`." in ran.error
    assert "mend the file" not in ran.error
    shown = " ".join(orders("background", "status", NAME).out.split())
    assert way_on in shown
    assert "mend the file" not in shown
