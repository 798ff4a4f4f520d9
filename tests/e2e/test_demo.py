"""``migronaut demo``: as its users run it, and what its proofs are worth."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from migronaut.demo import MAX_DOCUMENTS, DemoOptions, QueueKind
from migronaut.demo.orders import COLLECTION, FIRST_ID, seed
from migronaut.demo.proof import prove
from migronaut.errors import UsageError

_DOCUMENTS = 4000
_TIMEOUT = 90


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "migronaut", "demo", *arguments]


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*arguments),
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _digits_joined(text: str) -> str:
    return re.sub(r"(?<=\d)[\s\u202f\u00a0](?=\d{3}\b)", "", text)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize(
    ("queue", "way"), [*((queue, ()) for queue in QueueKind), (QueueKind.NONE, ("--pipeline",))], ids=str
)
def test_a_killed_worker_costs_no_order_and_no_write(queue: QueueKind, way: tuple[str, ...]) -> None:
    done = _demo("--documents", str(_DOCUMENTS), "--queue", queue, *way)

    told = _digits_joined(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"✔ {_DOCUMENTS} of {_DOCUMENTS} orders migrated exactly once" in told
    writes = re.search(r"✔ (\d+) of (\d+) writes of the application are there; 0 lost", told)
    assert writes is not None, told
    assert writes[1] == writes[2] != "0"
    assert "is killed now (SIGKILL), while it holds" in told
    assert "the other worker has taken over what the killed one held" in told
    assert ("the heal has sent the lost hint to the queue again" in told) == (queue is not QueueKind.NONE)
    assert "Traceback" not in told + done.stderr


@pytest.mark.slow
def test_a_collection_that_is_through_before_the_kill_says_so(standalone_uri: str) -> None:
    done = _demo("--documents", "1", "--uri", standalone_uri)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No worker was killed" in done.stdout


@pytest.mark.slow
@pytest.mark.chaos
def test_a_server_of_the_user_without_transactions_is_enough_and_is_left_clean(standalone_uri: str) -> None:
    done = _demo("--documents", "2000", "--uri", standalone_uri)

    assert done.returncode == 0, done.stdout + done.stderr
    assert _demo_databases(standalone_uri) == set()


@pytest.mark.slow
def test_a_kept_database_of_the_user_stays(standalone_uri: str) -> None:
    done = _demo("--documents", "1", "--uri", standalone_uri, "--keep")

    kept = _demo_databases(standalone_uri)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(kept) == 1
    assert kept.copy().pop() in done.stdout
    with MongoClient[dict[str, Any]](standalone_uri) as client:
        for name in kept:
            client.drop_database(name)


@pytest.mark.slow
def test_a_kept_server_answers_until_ctrl_c() -> None:
    with subprocess.Popen(_command("--documents", "1", "--keep"), stdout=subprocess.PIPE, encoding="utf-8") as demo:
        assert demo.stdout is not None
        told = next(line for line in demo.stdout if "until you press Ctrl-C" in line)
        uri = told.split()[3]
        with MongoClient[dict[str, Any]](uri) as client:
            assert client["shop"][COLLECTION].count_documents({"schema_version": 2}) == 1
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()

    assert demo.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_cleans_up(standalone_uri: str, number: signal.Signals) -> None:
    command = _command("--documents", str(_DOCUMENTS), "--uri", standalone_uri)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "running," in line)
        demo.send_signal(number)
        rest = demo.stdout.read()

    assert demo.returncode == 130, rest
    assert _demo_databases(standalone_uri) == set()
    assert "Traceback" not in rest


def test_a_server_that_does_not_answer_is_one_sentence() -> None:
    done = _demo("--uri", "mongodb://someone:secret@127.0.0.1:1/")

    assert done.returncode == 5
    assert "secret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("queue", ["rq", "dramatiq"])
def test_a_missing_library_of_a_queue_is_one_sentence_that_names_the_extra(queue: str) -> None:
    hidden = f"import sys; sys.modules[{queue!r}] = None; sys.argv = ['migronaut', 'demo', '--queue', {queue!r}]"
    program = f"{hidden}; from migronaut.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=_TIMEOUT, check=False
    )

    assert done.returncode == 6
    assert f'pip install "migronaut[embedded,{queue}]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("documents", [0, -1, MAX_DOCUMENTS + 1])
def test_a_number_of_documents_out_of_range_is_refused(documents: int) -> None:
    with pytest.raises(UsageError):
        DemoOptions(documents=documents)


def test_the_proof_sees_an_order_that_was_not_migrated(db: Database[dict[str, Any]]) -> None:
    seed(db, 3)
    _migrate_by_hand(db)
    db[COLLECTION].update_one({"_id": FIRST_ID}, {"$unset": {"shipping": ""}})

    proof = prove(db, expected=3, writes={})

    assert proof.migrated_once == 2
    assert proof.problem is not None


def test_the_proof_sees_an_order_that_was_migrated_twice(db: Database[dict[str, Any]]) -> None:
    seed(db, 3)
    _migrate_by_hand(db)
    assert prove(db, expected=3, writes={}).problem is None

    db[COLLECTION].update_one({"_id": FIRST_ID}, {"$inc": {"rev": 1}})

    assert prove(db, expected=3, writes={}).problem is not None


def test_the_proof_sees_a_lost_write(db: Database[dict[str, Any]]) -> None:
    seed(db, 3)
    _migrate_by_hand(db)
    db[COLLECTION].update_one({"_id": FIRST_ID}, {"$inc": {"rev": 1, "edits": 1}})

    assert prove(db, expected=3, writes={FIRST_ID: 1}).lost_writes == 0
    assert prove(db, expected=3, writes={FIRST_ID: 2}).lost_writes == 1
    assert prove(db, expected=3, writes={FIRST_ID + 1: 1, FIRST_ID: 1}).lost_writes == 1


def test_the_proof_sees_an_order_that_is_gone(db: Database[dict[str, Any]]) -> None:
    seed(db, 3)
    _migrate_by_hand(db)
    db[COLLECTION].delete_one({"_id": FIRST_ID})

    assert prove(db, expected=3, writes={}).problem is not None


def _migrate_by_hand(db: Database[dict[str, Any]]) -> None:
    change = {"$set": {"schema_version": 2, "shipping": {"address": {}}, "total": 1}, "$unset": {"address": ""}}
    db[COLLECTION].update_many({}, {**change, "$inc": {"rev": 1}})


def _demo_databases(uri: str) -> set[str]:
    with MongoClient[dict[str, Any]](uri) as client:
        return {name for name in client.list_database_names() if name.startswith("migronaut_demo_")}
