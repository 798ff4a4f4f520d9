"""An application writes a document of the batch at a forced moment: its write stays, and the counters say so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.collection import Collection
from pymongo.database import Database

from engine_kit import Rig, assert_migrated_once, at, old, orders, to_shipping
from migronaut.core.state import Counters, Status

Victim = Callable[[Collection[Any]], object]
VICTIM = 2


def update(collection: Collection[Any]) -> object:
    return collection.update_one({"_id": VICTIM}, {"$inc": {"hits": 1, "rev": 1}})


def replace_by_old(collection: Collection[Any]) -> object:
    return collection.replace_one({"_id": VICTIM}, old(VICTIM, hits=1, rev=7))


def replace_by_new(collection: Collection[Any]) -> object:
    new = {"_id": VICTIM, "shipping": {"address": "new"}, "hits": 1, "rev": 7, "schema_version": 2, "migrations": 1}
    return collection.replace_one({"_id": VICTIM}, new)


def delete(collection: Collection[Any]) -> object:
    return collection.delete_one({"_id": VICTIM})


def seeded(db: Database[Any], count: int = 5) -> None:
    db.orders.insert_many([old(number, rev=1) for number in range(count)])


def counted(rig: Rig, *names: str) -> dict[str, int]:
    totals: Counters = rig.totals
    return {name: getattr(totals, name) for name in names}


def assert_kept(rig: Rig, write: Victim) -> None:
    """What the application wrote is there, and every document was migrated once."""
    documents = rig.documents()
    assert_migrated_once(documents)
    if write is delete:
        assert VICTIM not in documents
    else:
        assert documents[VICTIM]["hits"] == 1
    assert len(documents) == 5 - (write is delete)


OUTCOMES = [
    # A changed one is transformed again in the same batch; one that is gone, or new already, is not ours any more.
    (update, {"migrated": 5, "skipped": 0, "retried": 1}),
    (replace_by_old, {"migrated": 5, "skipped": 0, "retried": 1}),
    (replace_by_new, {"migrated": 4, "skipped": 1, "retried": 0}),
    (delete, {"migrated": 4, "skipped": 1, "retried": 0}),
]


# Before the transaction it is seen by the comparison; after the comparison the server aborts the transaction.
@pytest.mark.parametrize(("point", "aborted"), [("documents.read", 0), ("documents.write_same.compared", 1)])
@pytest.mark.parametrize(("write", "expected"), OUTCOMES)
def test_a_write_before_ours_is_kept(
    db: Database[Any], write: Victim, expected: dict[str, int], point: str, aborted: int
) -> None:
    seeded(db)
    rig = Rig(db=db, interrupt=at(point, lambda: write(db.orders)))
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    assert_kept(rig, write)
    assert counted(rig, *expected) == expected
    assert counted(rig, "scanned", "conflicts", "txn_retries") == {"scanned": 5, "conflicts": 0, "txn_retries": aborted}


@pytest.mark.parametrize("write", [update, replace_by_old, replace_by_new, delete])
def test_a_write_before_the_commit_waits_for_it_and_lands_on_the_new_document(db: Database[Any], write: Victim) -> None:
    seeded(db)
    written = threading.Event()
    writer = threading.Thread(target=lambda: (write(db.orders), written.set()))

    def interrupt(point: str) -> None:
        if point == "documents.write_same.before-commit" and not writer.ident:
            writer.start()
            assert not written.wait(0.05), "the server lets nobody write a document of an open transaction"
        if point == "documents.write_same.committed":
            assert written.wait(10), "the application waits for the commit only"

    rig = Rig(db=db, interrupt=interrupt)
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    writer.join()
    assert_kept(rig, write)
    again = write is replace_by_old
    assert counted(rig, "migrated", "retried", "txn_retries") == {"migrated": 5 + again, "retried": 0, "txn_retries": 0}
    assert rig.status().pass_number == 1 + again


@pytest.mark.parametrize("write", [update, replace_by_old, replace_by_new, delete])
def test_a_write_after_the_commit_costs_nothing(db: Database[Any], write: Victim) -> None:
    seeded(db)
    rig = Rig(db=db, interrupt=at("documents.write_same.committed", lambda: write(db.orders)))
    rig.register(orders())
    assert rig.run() is Status.COMPLETED
    assert_kept(rig, write)
    again = write is replace_by_old
    assert counted(rig, "migrated", "retried", "txn_retries") == {"migrated": 5 + again, "retried": 0, "txn_retries": 0}


@pytest.mark.parametrize(("write", "expected"), OUTCOMES)
def test_the_revision_guard_sees_a_write_that_bumps(
    standalone_db: Database[Any], write: Victim, expected: dict[str, int]
) -> None:
    seeded(standalone_db)
    rig = Rig(db=standalone_db, interrupt=at("documents.read", lambda: write(standalone_db.orders)))
    rig.register(orders(revision_field="rev"))
    assert rig.run() is Status.COMPLETED
    assert_kept(rig, write)
    assert counted(rig, *expected) == expected


@pytest.mark.parametrize("write", [update, replace_by_old, replace_by_new, delete])
def test_with_the_revision_guard_a_write_before_the_checkpoint_is_kept(
    standalone_db: Database[Any], write: Victim
) -> None:
    seeded(standalone_db)
    hook = at("documents.write_guarded.written", lambda: write(standalone_db.orders))
    rig = Rig(db=standalone_db, interrupt=hook)
    rig.register(orders(revision_field="rev"))
    assert rig.run() is Status.COMPLETED
    assert_kept(rig, write)
    assert counted(rig, "migrated", "retried") == {"migrated": 5 + (write is replace_by_old), "retried": 0}


def test_a_document_that_keeps_changing_is_left_to_the_next_pass(db: Database[Any]) -> None:
    seeded(db)
    calls = 0

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        nonlocal calls
        if doc["_id"] == VICTIM:
            calls += 1
            if calls <= 3:  # the first try and two rounds
                update(db.orders)
        return to_shipping(doc)

    rig = Rig(db=db)
    rig.register(orders(max_conflict_retries=2, migrate=migrate))
    assert rig.run() is Status.COMPLETED
    documents = rig.documents()
    assert_migrated_once(documents)
    assert documents[VICTIM]["hits"] == 3
    assert rig.status().pass_number == 2
    expected = {"scanned": 6, "migrated": 5, "retried": 2, "conflicts": 1}
    assert counted(rig, *expected) == expected
