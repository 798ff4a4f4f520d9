"""The changelog: failed never hides applied, numbers are never used twice, a tampered record is one row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import evolve
from pymongo import MongoClient
from pymongo.database import Database

from migronaut.mongo.changelog import Entry, InvalidRecord, MongoChangelog, Record, RecordKind, RecordStatus

COLLECTION = "_migronaut_migrations"
FIRST = Entry(
    name="0001_a.py",
    batch=1,
    checksum="sha256-1:00",
    kind=RecordKind.BACKGROUND,
    description="$set the price",
    duration=0.25,
    environment="test",
    run_id="run",
    executed_by="ann",
    requested_by="bob",
    reason="why",
)


@pytest.fixture
def changelog(db: Database[Any]) -> MongoChangelog:
    """An empty one."""
    return MongoChangelog(db)


def only(changelog: MongoChangelog) -> Record:
    (record,) = changelog.records()
    assert isinstance(record, Record)
    return record


def test_reading_creates_nothing(changelog: MongoChangelog, db: Database[Any]) -> None:
    assert (changelog.records(), changelog.next_batch()) == ((), 1)
    assert db.list_collection_names() == []


def test_what_was_applied_is_told_in_full(changelog: MongoChangelog) -> None:
    changelog.applied(FIRST)
    record = only(changelog)
    assert record.applied_at is not None
    wanted = Record(
        **{name: getattr(FIRST, name) for name in Entry.__annotations__},
        status=RecordStatus.APPLIED,
        applied_at=record.applied_at,
        first_applied_at=record.applied_at,
    )
    assert record == wanted


def test_a_failure_never_demotes_what_is_applied(changelog: MongoChangelog) -> None:
    changelog.applied(FIRST)
    before = only(changelog)
    assert not changelog.failed(evolve(FIRST, batch=2), error="boom")
    assert only(changelog) == before


def test_success_clears_the_trace_of_a_failure_and_keeps_the_first_time(changelog: MongoChangelog) -> None:
    assert changelog.failed(FIRST, error="boom at mongodb://bob:hunter2@db/")
    failed = only(changelog)
    assert (failed.status, failed.applied_at) == (RecordStatus.FAILED, None)
    assert failed.failed_at is not None
    assert failed.error is not None
    assert "hunter2" not in failed.error
    changelog.applied(evolve(FIRST, batch=2))
    applied = only(changelog)
    assert (applied.status, applied.batch, applied.error, applied.failed_at) == (RecordStatus.APPLIED, 2, None, None)
    changelog.applied(evolve(FIRST, batch=3))
    assert only(changelog).first_applied_at == applied.first_applied_at


def test_a_batch_number_is_never_used_twice(changelog: MongoChangelog, db: Database[Any]) -> None:
    changelog.failed(evolve(FIRST, name="0002_b.py", batch=7), error="boom")
    changelog.applied(FIRST)
    db[COLLECTION].insert_one({"name": "0003_c.py", "batch": "999"})
    assert changelog.next_batch() == 8


def test_writers_at_once_leave_one_record(changelog: MongoChangelog) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: changelog.applied(evolve(FIRST, batch=number)), range(1, 17)))
    assert only(changelog).status is RecordStatus.APPLIED


def test_a_record_commits_with_the_transaction_of_the_migration(
    changelog: MongoChangelog, client: MongoClient[Any]
) -> None:
    changelog.prepare()
    with client.start_session() as session:
        with session.start_transaction():
            changelog.applied(FIRST, session=session)
            session.abort_transaction()
        assert changelog.records() == ()
        with session.start_transaction():
            changelog.applied(FIRST, session=session)
    assert only(changelog).name == FIRST.name


@pytest.mark.parametrize(
    "tampered",
    [
        {"name": "../../etc/secret.py"},
        {"name": "a\0secret.py"},
        {"name": "a\tsecret.py"},
        {"name": "secret"},
        {"name": {"$ne": "secret"}},
        {"name": None},
        {"status": "secret"},
        {"batch": "secret"},
        {"applied_at": "secret"},
    ],
)
def test_a_tampered_record_is_one_invalid_row(
    changelog: MongoChangelog, db: Database[Any], tampered: dict[str, Any]
) -> None:
    changelog.applied(FIRST)
    good = only(changelog)
    whole = {"name": "0002_b.py", "batch": 1, "checksum": "c", "status": "applied"}
    db[COLLECTION].insert_one(whole | tampered)
    rows = changelog.records()
    assert good in rows
    (invalid,) = (row for row in rows if isinstance(row, InvalidRecord))
    assert "secret" not in invalid.problem


def test_fields_of_a_newer_release_do_not_hide_a_record(changelog: MongoChangelog, db: Database[Any]) -> None:
    changelog.applied(FIRST)
    before = only(changelog)
    db[COLLECTION].update_one({}, {"$set": {"origin": "baseline"}})
    assert only(changelog) == before
