"""What must hold with real workers, whatever happens to them, to their hints and to their broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.chaos_faults import HINTS, THIRD_LOST, TWICE
from e2e.chaos_kit import DOCUMENTS, MIGRATION, POISON, Chaos, Db, Library, chaos, python

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the processes of a worker in /proc"),
]

STOP_LIMIT = 8.0
"""Seconds within which a worker must have left after SIGTERM, on a busy machine."""


def _rq(request: pytest.FixtureRequest) -> Library:
    pytest.importorskip("rq", reason="needs the extra rq")
    from e2e.chaos_rq import Rq

    return Rq(request.getfixturevalue("valkey"))


def _dramatiq_on_valkey(request: pytest.FixtureRequest) -> Library:
    pytest.importorskip("dramatiq", reason="needs the extra dramatiq")
    from e2e.chaos_dramatiq import OnValkey

    return OnValkey(request.getfixturevalue("valkey"))


def _dramatiq_on_rabbitmq(request: pytest.FixtureRequest) -> Library:
    pytest.importorskip("dramatiq", reason="needs the extra dramatiq")
    from e2e.chaos_dramatiq import OnRabbitMQ

    library = OnRabbitMQ(request.getfixturevalue("amqp_url"))
    request.addfinalizer(library.lose_everything)
    return library


@pytest.fixture(
    params=[_rq, _dramatiq_on_valkey, _dramatiq_on_rabbitmq], ids=["rq", "dramatiq-valkey", "dramatiq-rabbitmq"]
)
def run(request: pytest.FixtureRequest, db: Db, mongo_uri: str, tmp_path: Path) -> Iterator[Chaos]:
    with chaos(db, mongo_uri, request.param(request), tmp_path) as made:
        yield made


def assert_completed(run: Chaos, **how: Any) -> None:
    status = run.ends("completed", **how)
    assert run.migrated() == DOCUMENTS
    assert (status.totals.migrated, status.totals.failed, status.left_out) == (DOCUMENTS, 0, 0)


def test_two_workers_and_four_lanes_migrate_every_document_once(run: Chaos) -> None:
    run.start()
    assert_completed(run)


def test_a_worker_killed_in_the_middle_of_a_batch_costs_no_document(run: Chaos) -> None:
    run.hold.set()
    run.start()
    run.worker_in_the_middle_of_a_batch().kill()
    run.hold.release()
    assert_completed(run)
    assert run.status().totals.reclaims >= 1


def test_sigterm_in_the_middle_of_a_slice_ends_the_worker_in_seconds_and_the_others_go_on(run: Chaos) -> None:
    run.hold.set()
    run.start()
    worker = run.worker_in_the_middle_of_a_batch()
    assert run.migrated() < DOCUMENTS  # the held batch is still to do, by whoever is left
    worker.terminate()
    run.hold.release()
    assert worker.wait(STOP_LIMIT) == 0
    assert_completed(run)


def test_hints_that_are_all_delivered_twice_do_the_work_once(run: Chaos) -> None:
    run.start(faulty=TWICE)
    assert_completed(run)
    assert _sent(run) >= 5


def test_hints_of_which_every_third_is_lost_do_all_the_work(run: Chaos) -> None:
    run.start(faulty=THIRD_LOST)
    assert_completed(run)
    assert _sent(run) >= 5


def test_a_broker_that_comes_back_empty_in_the_middle_costs_no_work(run: Chaos) -> None:
    run.hold.set()
    run.start()
    run.worker_in_the_middle_of_a_batch()
    run.library.lose_everything()
    run.hold.release()
    assert_completed(run, supervised=True)


def test_a_document_whose_transform_raises_fails_the_migration_and_is_named_in_the_state_only(run: Chaos) -> None:
    run.db.orders.insert_one(POISON | {"schema_version": 1, "rev": 0, "was": 0, "address": "0 Main St"})
    run.start()
    run.ends("failed")
    assert run.migrated() + run.untouched() == DOCUMENTS + 1
    assert run.migrated(_id=POISON["_id"]) == 0
    state = run.db["_migronaut_background"].find_one({"_id": MIGRATION})
    assert state is not None
    assert state["bad_ids"] == [POISON["_id"]]
    shown = {"status": _status(run), "json": _status(run, "--json"), "logs": run.logs()}
    run.stop()  # what the workers have fetched is in the broker again
    shown["broker"] = run.library.kept()
    assert MIGRATION.encode() in shown["json"]
    assert b"lane" in shown["logs"]
    for where, text in shown.items():
        assert not [secret for secret in POISON.values() if secret.encode() in text], where


def _sent(run: Chaos) -> int:
    counted = run.db[HINTS].find_one({"_id": "hints"}) or {"sent": 0}
    return int(counted["sent"])


def _status(run: Chaos, *options: str) -> bytes:
    command = python("migronaut", "background", "status", MIGRATION, *options)
    called = subprocess.run(
        command, env={**os.environ, **run.variables}, capture_output=True, check=False, timeout=60, cwd=run.home
    )
    return called.stdout + called.stderr
