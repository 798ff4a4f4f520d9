"""What a collection is, and what becomes of it under a migration: said when it is registered, and at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from engine_kit import ANN, COUNT, NAME, Rig, at, orders, piped, seeded
from migronaut.core.state import Direction, Status
from migronaut.engine.operator import controls
from migronaut.engine.operator.registering import register
from migronaut.errors import InvalidMigrationError

Change = Callable[[Database[Any]], object]


def advice(rig: Rig) -> str:
    """What an operator is told when the migration is registered."""
    found = register(rig.ports, NAME, direction=Direction.FORWARD, registration=uuid4().hex, request=ANN)
    return found.advice or ""


def capped(db: Database[Any]) -> None:
    db.create_collection("orders", capped=True, size=1_000_000)
    seeded(db, 50)


@pytest.mark.parametrize("given", [orders(), orders(guard="snapshot"), piped()])
def test_a_capped_collection_is_refused_with_what_can_be_done(db: Database[Any], given: Any) -> None:
    capped(db)
    rig = Rig(db=db)
    with pytest.raises(InvalidMigrationError) as refused:
        rig.register(given)
    assert "orders is a capped collection, which takes no writes in transactions" in refused.value.message
    assert 'guard="revision"' in refused.value.message
    assert 'a pipeline with guard="version"' in refused.value.message
    assert rig.ports.store.states() == ()


@pytest.mark.parametrize("given", [orders(guard="revision", revision_field="rev"), piped(guard="version")])
def test_what_needs_no_transactions_can_be_done_on_a_capped_collection(db: Database[Any], given: Any) -> None:
    capped(db)
    rig = Rig(db=db)
    rig.register(given)
    assert rig.run() is Status.COMPLETED, rig.status().last_error
    assert rig.migrated() == 50


def become_capped(db: Database[Any]) -> None:
    db.command("convertToCapped", "orders", size=1_000_000)


def become_a_view(db: Database[Any]) -> None:
    db.orders.rename("orders_of_before")
    db.command("create", "orders", viewOn="orders_of_before", pipeline=[])


def become_a_time_series(db: Database[Any]) -> None:
    db.orders.drop()
    db.create_collection("orders", timeseries={"timeField": "at"})


UNFIT: list[tuple[Change, str]] = [
    (become_capped, "orders is a capped collection"),
    (become_a_view, "orders is a view: give the name of a collection"),
    (become_a_time_series, "orders is a timeseries: give the name of a collection"),
]


@pytest.mark.parametrize("given", [orders(), piped()])
@pytest.mark.parametrize(("change", "reason"), UNFIT)
def test_what_makes_a_collection_unfit_after_it_was_registered_fails_the_migration(
    db: Database[Any], change: Change, reason: str, given: Any
) -> None:
    seeded(db)
    rig = Rig(db=db)
    rig.register(given)
    change(db)
    assert rig.run() is Status.FAILED
    assert reason in str(rig.status().last_error)


@pytest.mark.parametrize("given", [orders(), piped()])
@pytest.mark.parametrize(("change", "reason"), UNFIT)
def test_what_makes_a_collection_unfit_under_a_lane_fails_the_migration(
    db: Database[Any], change: Change, reason: str, given: Any
) -> None:
    seeded(db)
    rig = Rig(db=db)
    rig.register(given)
    committed = "documents.rewrite_fenced.committed" if given.spec.pipeline else "documents.write_same.committed"
    rig.interrupt = at(committed, lambda: change(db), arrival=3)
    assert rig.run() is Status.FAILED
    assert reason in str(rig.status().last_error)
    assert rig.totals.migrated == 30


def test_it_can_go_on_when_the_collection_is_back(db: Database[Any]) -> None:
    seeded(db)
    rig = Rig(db=db)
    rig.register(orders())
    become_a_view(db)
    assert rig.run() is Status.FAILED
    db.orders.drop()
    db.orders_of_before.rename("orders")
    controls.retry(rig.ports, NAME, ANN, from_start=False)
    assert rig.run() is Status.COMPLETED
    assert rig.migrated() == COUNT


def test_a_collection_that_does_not_exist_is_said_from_the_start(db: Database[Any]) -> None:
    rig = Rig(db=db)
    rig.give(orders(collection="ordres"))
    said = "the collection ordres does not exist (yet); is its name right?"
    assert said[1:] in advice(rig)
    assert "no index" not in rig.status().note
    assert rig.status().note == said
    assert rig.run() is Status.COMPLETED
    assert rig.status().note == said


def test_a_collection_that_comes_in_time_is_not_talked_about(db: Database[Any]) -> None:
    rig = Rig(db=db)
    rig.register(orders())
    seeded(db)
    assert rig.run() is Status.COMPLETED
    assert rig.status().note is None
    assert rig.migrated() == COUNT


GONE = "the collection orders is gone: it was dropped or renamed before the migration was through"


@pytest.mark.parametrize("change", [lambda db: db.orders.drop(), lambda db: db.orders.rename("others")])
def test_a_collection_that_vanishes_under_a_lane_is_said_in_the_status_and_the_log(
    db: Database[Any], change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    seeded(db)
    rig = Rig(db=db)
    rig.register(orders())
    rig.interrupt = at("documents.write_same.committed", lambda: change(db), arrival=5)
    assert rig.run() is Status.COMPLETED
    status = rig.status()
    assert (status.totals.migrated, status.note) == (50, GONE)
    assert f"{NAME} completed; {GONE}" in caplog.messages


def test_a_collection_in_the_place_of_another_is_migrated(db: Database[Any]) -> None:
    seeded(db)
    rig = Rig(db=db)
    rig.register(orders())

    def swap() -> None:
        db.orders.rename("others")
        seeded(db)

    rig.interrupt = at("documents.write_same.committed", swap, arrival=5)
    assert rig.run() is Status.COMPLETED
    assert rig.status().note is None
    assert rig.migrated() == COUNT


@contextmanager
def failing(client: MongoClient[Any], code: int, times: int | str, *commands: str) -> Iterator[None]:
    """Commands that fail with an error of the server."""
    mode = times if isinstance(times, str) else {"times": times}
    data = {"errorCode": code, "failCommands": list(commands)}
    client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)
    try:
        yield
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")


OPERATION_FAILED = 96


def test_an_error_that_does_not_pass_is_not_asked_for_ever(db: Database[Any]) -> None:
    """The count at the end is an aggregate."""
    seeded(db, 20)
    rig = Rig(db=db)
    rig.register(orders())
    with failing(db.client, OPERATION_FAILED, "alwaysOn", "aggregate"):
        assert rig.run() is Status.FAILED
    assert rig.status().last_error == "MongoDB refused it: server error 96 (OperationFailed)"
    controls.retry(rig.ports, NAME, ANN, from_start=False)
    assert rig.run() is Status.COMPLETED


def test_an_error_that_passes_is_waited_out(db: Database[Any]) -> None:
    seeded(db, 20)
    rig = Rig(db=db)
    rig.register(orders())
    with failing(db.client, OPERATION_FAILED, 2, "aggregate"):
        assert rig.run() is Status.COMPLETED
