"""Large documents and many of them: batches cut by size, and the memory that a lane needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from engine_kit import Rig, assert_migrated_once, at, old, orders, to_shipping
from migronaut.core.state import Status

MIB = 1 << 20
STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("guard", ["snapshot", "version"])
def test_a_batch_cut_by_size_is_not_the_end(db: Database[Any], guard: str) -> None:
    """Forty mebibytes in one batch size: read in pieces, none left out, one pass."""
    for number in range(20):
        db.orders.insert_one(old(number, ballast=b"x" * (2 * MIB)))
    rig = Rig(db=db)
    rig.register(orders(batch_size=100, guard=guard))
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.scanned, rig.status().pass_number) == (20, 20, 1)
    assert rig.totals.batches > 1


def test_what_is_written_may_be_larger_than_one_command(db: Database[Any]) -> None:
    """Every document grows by three mebibytes, and is cut into commands that the server takes."""
    db.orders.insert_many([old(number) for number in range(12)])
    rig = Rig(db=db)
    rig.register(orders(batch_size=12, migrate=lambda doc: to_shipping(doc) | {"ballast": b"x" * (3 * MIB)}))
    assert rig.run() is Status.COMPLETED
    assert_migrated_once(rig.documents())
    assert (rig.totals.migrated, rig.totals.batches, rig.totals.failed) == (12, 1, 0)


def test_a_document_of_almost_the_largest_size_is_migrated(db: Database[Any]) -> None:
    db.orders.insert_many([old(1), old(2, ballast=b"x" * (16 * MIB - 4000)), old(3)])
    rig = Rig(db=db)
    rig.register(orders())
    assert rig.run() is Status.COMPLETED, rig.status().errors
    assert_migrated_once(rig.documents())


def test_a_result_of_almost_the_largest_size_is_written(db: Database[Any]) -> None:
    db.orders.insert_many([old(1), old(2), old(3)])
    rig = Rig(db=db)
    largest = b"x" * (16 * MIB - 4000)
    rig.register(orders(migrate=lambda doc: to_shipping(doc) | ({"ballast": largest} if doc["_id"] == 2 else {})))
    assert rig.run() is Status.COMPLETED, rig.status().errors
    assert_migrated_once(rig.documents())


@pytest.mark.skipif(not STATM.exists(), reason="reads the memory of the process from /proc")
def test_many_documents_need_no_more_memory_than_few(db: Database[Any]) -> None:
    """The lane's memory half way is its memory at the end, and the progress tells the truth meanwhile."""
    count = 60_000
    for start in range(0, count, 10_000):
        db.orders.insert_many([old(number) for number in range(start, start + 10_000)])
    rig = Rig(db=db)
    memory: list[int] = []
    told: list[tuple[int, float]] = []

    def look() -> None:
        memory.append(resident())
        progress = rig.status().progress
        told.append((progress.done, progress.percent))

    def interrupt(point: str) -> None:
        for each in (early, middle, late):
            each(point)

    early, middle, late = (at("documents.write_same.committed", look, arrival=arrival) for arrival in (6, 30, 60))
    rig.register(orders(batch_size=1000, migrate=light))
    rig.interrupt = interrupt
    assert rig.run() is Status.COMPLETED
    assert rig.totals.migrated == count == db.orders.count_documents({"schema_version": 2})
    assert [done for done, _ in told] == [6000, 30_000, 60_000]
    assert [percent for _, percent in told] == pytest.approx([10, 50, 99], abs=1)
    assert max(memory) < memory[0] + 10 * MIB


def light(doc: dict[str, Any]) -> dict[str, Any]:
    doc["shipping"] = doc.pop("address")
    return doc
