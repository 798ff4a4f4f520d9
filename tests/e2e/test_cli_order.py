"""Migrations that wait for each other, and states that were lost: what an operator reads, and the exit codes."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli, interrupt

Db = Database[dict[str, Any]]
STATES = "_migronaut_background"
CHAIN = ("0001_one.py", "0002_two.py", "0003_three.py")
STEP = '''"""One step."""
from migronaut import Background

def migrate(doc):
    return doc | {{"steps": [*doc["steps"], {version}]}}

background = Background(
    collection="orders", from_version={version}, to_version={version} + 1, migrate=migrate, {settings}
)
'''
LINKS = tuple(f"000{number}_m.py" for number in range(1, 6))
FAILED = f"{LINKS[2]}, which failed: 1 document could not be migrated; max_document_errors allows 0"


def step(version: int, settings: str = "pause=0") -> str:
    return STEP.format(version=version, settings=settings)


def of_all_versions(db: Db) -> None:
    db.orders.insert_many([{"_id": number, "schema_version": 1 + number % 3, "steps": []} for number in range(600)])


def assert_all_went_every_step(db: Db) -> None:
    wrong = [doc for doc in db.orders.find() if doc["steps"] != list(range(4 - len(doc["steps"]), 4))]
    assert not wrong
    assert db.orders.distinct("schema_version") == [4]


@pytest.fixture
def chain(cli: Cli, db: Db) -> Cli:
    """Three files on one collection that know nothing of each other, and documents of all versions."""
    for version, name in enumerate(CHAIN, start=1):
        cli.write(name, step(version, "batch_size=10, pause=0.05"))
    of_all_versions(db)
    return cli


@pytest.fixture
def links(cli: Cli, db: Db) -> Cli:
    """Five files on five collections, each requires the one before; the third one cannot do its document."""
    for number, name in enumerate(LINKS, start=1):
        requires = f'requires = ["{LINKS[number - 2]}"]\n' if number > 1 else ""
        cli.write(name, requires + BACKGROUND.replace('"orders"', f'"c{number}"'))
        db[f"c{number}"].insert_one({"address": "x", "schema_version": 1})
    db.c3.update_one({}, {"$unset": {"address": ""}})
    assert cli("up").code == 0
    return cli


def test_two_processes_on_documents_of_all_versions_leave_none_behind(chain: Cli, db: Db) -> None:
    assert chain("up").code == 0
    both = [chain.start("background", "run") for _ in range(2)]
    told = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert_all_went_every_step(db)
    shown = {each["name"]: each for each in chain("background", "status", "--json").json["background"]}
    assert [shown[name]["totals"]["migrated"] for name in CHAIN] == [200, 400, 600]
    for name, count in zip(CHAIN, (200, 400, 600), strict=True):
        own = [_own(out, name) for out, _ in told]
        assert sum(own) == count, told
        assert [
            f"{count} in all" in line or mine == count for (line, mine) in zip(_lines(told, name), own, strict=True)
        ]


def _lines(told: list[tuple[str, str]], name: str) -> list[str]:
    return [next(line for line in out.splitlines() if line.startswith(f"{name}: completed")) for out, _ in told]


def _own(out: str, name: str) -> int:
    found = re.search(rf"^{name}: completed, (\d+) documents? migrated", out, re.MULTILINE)
    assert found, out
    return int(found[1])


def test_what_others_did_is_told_apart_and_waiting_is_no_work(chain: Cli, db: Db) -> None:
    """The first one is worked by another process; the second one cannot end before."""
    chain.write(CHAIN[0], step(1, "batch_size=10, pause=0.3"))
    assert chain("up").code == 0
    first = chain.start("background", "run", CHAIN[0])
    _until(lambda: db.orders.count_documents({"steps": [1]}))
    ran = chain("background", "run", CHAIN[0], CHAIN[1])
    first.communicate(timeout=60)
    assert (ran.code, first.returncode) == (0, 0)
    assert f"{CHAIN[0]}: completed, 0 documents migrated here in 0 s, 200 in all" in ran.out
    assert f"{CHAIN[1]}: waits for {CHAIN[0]}, which makes version 2" in ran.out
    own = re.search(rf"{CHAIN[1]}: completed, 400 documents migrated in (\d+) s", ran.out)
    assert own, ran.out
    assert int(own[1]) <= 4  # 40 batches and pauses of 0.05 s; the waiting took longer than that


def _until(found: Any) -> None:
    end = time.monotonic() + 30
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_all_active_ones_are_also_those_that_become_active_meanwhile(chain: Cli, db: Db) -> None:
    """The second and the third have completed; the first, which comes later, makes documents for them."""
    for name in CHAIN[1:]:
        assert chain("up", name).code == 0
    assert chain("background", "run").code == 0
    assert chain("up").code == 0
    ran = chain("background", "run")
    assert ran.code == 0
    assert [f"{name}: completed, 200 documents migrated here" in ran.out for name in CHAIN] == [False, True, True]
    assert f"{CHAIN[0]}: completed, 200 documents migrated in" in ran.out
    assert_all_went_every_step(db)


def test_one_alone_names_what_it_waits_for_and_goes_on_when_it_is_through(chain: Cli, db: Db) -> None:
    assert f"hint: It waits for {CHAIN[0]}, which makes version 2." in chain("up").out
    waiting = chain.start("background", "run", CHAIN[1])
    assert waiting.stdout is not None
    assert waiting.stdout.readline().strip() == f"{CHAIN[1]}: waits for {CHAIN[0]}, which makes version 2"
    assert chain("background", "run", CHAIN[0]).code == 0
    waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert db.orders.count_documents({"schema_version": 3, "steps": [1, 2]}) == 200


def test_what_waits_for_a_failed_one_over_any_number_of_others_ends_and_names_it(links: Cli) -> None:
    assert links("background", "run", *LINKS[:3]).code == 32
    alone = links("background", "run", LINKS[4], timeout=30)
    assert alone.code == 32
    assert f"{LINKS[4]} waits for {FAILED}." in alone.error
    assert f"`migronaut background retry {LINKS[2]} --repin`" in alone.error
    assert f"`migronaut background run {LINKS[2]} {LINKS[4]}`" in alone.error


def test_all_of_a_chain_with_a_failed_one_in_it_fail_every_time_they_are_run(links: Cli, db: Db) -> None:
    first = links("background", "run")
    assert (first.code, f"{LINKS[2]} failed: 1 document could not be migrated" in first.error) == (32, True)
    again = links("background", "run", "--json", timeout=30)
    assert again.code == 32
    outcomes = {row["name"]: (row["outcome"], row["waiting"]) for row in again.json["results"]}
    assert outcomes == dict.fromkeys(LINKS[3:], ("blocked", f"waits for {FAILED}"))
    assert f"{LINKS[3]} waits for {FAILED}." in again.json["error"]["message"]
    assert f"waits for {FAILED}" in links("background", "status", LINKS[4], COLUMNS="200").out
    db.c3.update_one({}, {"$set": {"address": "x"}})
    assert links("background", "retry", LINKS[2]).code == 0
    assert links("background", "run").code == 0
    assert all(db[f"c{number}"].find_one({"schema_version": 2}) for number in range(1, 6))


@pytest.mark.parametrize(
    ("control", "why", "way_on"), [("pause", "is paused", "resume"), ("cancel", "was cancelled", "retry")]
)
def test_what_waits_for_one_that_will_not_come_ends_with_the_way_on(
    links: Cli, control: str, why: str, way_on: str
) -> None:
    assert links("background", control, LINKS[0], *(["--yes"] if control == "cancel" else [])).code == 0
    ran = links("background", "run", LINKS[1], timeout=30)
    assert ran.code == 31
    assert f"{LINKS[1]} waits for {LINKS[0]}, which {why}; `migronaut background {way_on} {LINKS[0]}`" in ran.error
    assert links("background", "run", timeout=30).code == 31


def test_a_paused_one_is_waited_for_no_longer_than_it_is_known(chain: Cli) -> None:
    assert chain("up").code == 0
    waiting = chain.start("background", "run", CHAIN[1])
    assert waiting.stdout is not None
    waiting.stdout.readline()
    assert chain("background", "pause", CHAIN[0]).code == 0
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 31
    assert f"waits for {CHAIN[0]}, which makes version 2 and is paused" in err


def test_before_up_there_is_a_hint_and_no_success(chain: Cli) -> None:
    for arguments in ((), ("--json",)):
        ran = chain("background", "run", *arguments)
        assert ran.code == 9
        message = ran.json["error"]["message"] if arguments else ran.error
        assert f"{', '.join(CHAIN)} are not registered yet; run `migronaut up` first" in message
    assert chain("up").code == 0
    assert chain("background", "run").code == 0
    done = chain("background", "run")
    assert (done.code, "has work to do" in done.out) == (0, True)


def test_ordinary_files_alone_leave_nothing_to_run(cli: Cli) -> None:
    cli.write("0001_note.py", "def up(ctx):\n    ctx.db.notes.insert_one({})\n")
    assert cli("background", "run").code == 0


def test_an_ordinary_file_says_what_it_waits_for(links: Cli, db: Db) -> None:
    links.write("0009_drop.py", f'requires = ["{LINKS[1]}"]\ndef up(ctx):\n    ctx.db.c2.drop()\n')
    up = links("up")
    assert (up.code, f"0009_drop.py waits for {LINKS[1]}, which is blocked" in up.error) == (31, True)
    assert links("background", "run", *LINKS[:2]).code == 0
    db.c2.insert_one({"address": "late", "schema_version": 1})
    up = links("up")
    assert (up.code, f"0009_drop.py waits for {LINKS[1]}, which is running" in up.error) == (31, True)
    assert db.c2.count_documents({}) == 2
    assert links("background", "run", LINKS[1]).code == 0
    assert links("up").code == 0
    assert db.c2.count_documents({}) == 0


def test_states_that_were_lost_are_said_and_registered_again_when_that_is_wanted(orders: Cli, db: Db) -> None:
    assert orders("up").code == 0
    process = orders.start("background", "run")
    _until(lambda: db.orders.count_documents({"schema_version": 2}))
    interrupt(process)
    process.communicate(timeout=30)
    db[STATES].drop()
    lost = f"{NAME} was registered, but its state is not in this database"
    way_on = "`migronaut up --yes` registers it again"
    up = orders("up")
    assert (up.code, lost in up.out, way_on in up.out, "Nothing is pending." in up.out) == (0, True, True, True)
    assert [each["name"] for each in orders("up", "--json").json["lost"]] == [NAME]
    for command in (("background", "run"), ("background", "run", NAME), ("background", "status", NAME)):
        told = orders(*command)
        assert (told.code, lost in told.error, way_on in told.error) == (9, True, True)
    assert lost in orders("background", "status").out
    again = orders("up", "--yes")
    assert (again.code, f"{NAME}: registered" in again.out, lost in again.out) == (0, True, False)
    assert orders("background", "run").code == 0
    assert db.orders.count_documents({"schema_version": 2, "address": {"$exists": False}}) == 200
    assert lost not in orders("up").out


def test_what_is_registered_again_waits_as_it_did(chain: Cli, db: Db) -> None:
    assert chain("up").code == 0
    db[STATES].drop()
    again = chain("up", CHAIN[1], "--yes")
    assert f"{CHAIN[1]}: registered" in again.out
    assert chain("up", "--yes").code == 0
    assert chain("background", "run").code == 0
    assert_all_went_every_step(db)


def test_a_completed_one_says_what_was_migrated(chain: Cli, db: Db) -> None:
    """Documents that are deleted meanwhile were planned, and are not done; a second pass is no migration of its own."""
    chain.write(
        CHAIN[0],
        step(1, "batch_size=10, pause=0").replace(
            "def migrate(doc):",
            f"""from pymongo import MongoClient

def migrate(doc):
    if not doc["_id"]:
        orders = MongoClient("{chain.settings["MIGRONAUT_URI"]}")["{db.name}"].orders
        orders.delete_many({{"_id": {{"$gt": 300}}}})
        orders.insert_one({{"_id": -1, "steps": [], "schema_version": 1}})""",
        ),
    )
    assert chain("up", CHAIN[0]).code == 0
    assert f"{CHAIN[0]}: completed, 102 documents migrated in" in chain("background", "run").out
    (shown,) = chain("background", "status", "--json").json["background"]
    assert (shown["pass_number"], shown["totals"]["migrated"]) == (2, 102)
    assert (shown["progress"]["done"], shown["progress"]["estimate"], shown["progress"]["percent"]) == (102, 102, 100)
    assert "102 migrated" in chain("background", "status").out
