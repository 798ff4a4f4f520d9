"""The tools for users' own tests: a migration runs through the real engine without a server."""

from __future__ import annotations

from typing import Any

import pytest

from engine_kit import piped
from migronaut import Background, Partitioning
from migronaut.core.ports import Owner
from migronaut.core.state import Direction
from migronaut.errors import BackgroundPendingError
from migronaut.queueing import BackgroundProcessor, Producer
from migronaut.queueing.memory import MemoryQueue
from migronaut.testing import MemoryEngine, migrate_in_memory

ORDERS = [{"_id": number, "address": f"street {number}", "schema_version": 1} for number in range(25)]


def to_shipping(doc: dict[str, Any]) -> dict[str, Any]:
    doc["shipping"] = {"address": doc.pop("address")}
    return doc


def to_address(doc: dict[str, Any]) -> dict[str, Any]:
    doc["address"] = doc.pop("shipping")["address"]
    return doc


def orders(**settings: Any) -> Background:
    declared: dict[str, Any] = {
        "collection": "orders",
        "from_version": 1,
        "to_version": 2,
        "migrate": to_shipping,
        "revert": to_address,
        "batch_size": 10,
    }
    return Background(**(declared | settings))


def test_every_document_reaches_its_new_shape() -> None:
    done = migrate_in_memory(orders(), ORDERS)
    assert done.status.status == "completed"
    assert done.status.totals.migrated == 25
    assert done.documents[3] == {"_id": 3, "schema_version": 2, "shipping": {"address": "street 3"}}


def test_the_way_back_restores_every_document() -> None:
    forward = migrate_in_memory(orders(), ORDERS)
    back = migrate_in_memory(orders(), forward.documents, direction=Direction.REVERT)
    assert back.documents == [{key: doc[key] for key in ("_id", "schema_version", "address")} for doc in ORDERS]


def test_a_document_that_raises_is_reported_and_the_others_go_through() -> None:
    done = migrate_in_memory(orders(max_document_errors=1), [*ORDERS, {"_id": 99, "schema_version": 1}])
    assert (done.status.status, done.status.left_out, done.status.totals.migrated) == ("completed", 1, 25)
    assert done.status.errors[0].kind == "transform-raised"
    assert "KeyError" in done.status.errors[0].message


def test_a_queue_in_memory_drives_a_migration_to_its_end() -> None:
    background = orders(max_parallel=3, partitions=Partitioning(min_documents=5))
    memory = MemoryEngine(migrations={"0001_orders.py": background})
    memory.server.collection("orders").insert(*ORDERS)
    memory.register("0001_orders.py")
    queue = MemoryQueue(memory.clock)
    queue.bind(BackgroundProcessor(memory.engine, queue, owner=Owner(name="test", host="here", pid=1)))
    Producer(memory.engine, queue).enqueue("0001_orders.py")
    queue.run_until_idle()
    assert all(doc["schema_version"] == 2 for doc in memory.server.collection("orders").find())
    assert memory.engine.ports.tickets.of("0001_orders.py") == ()


def test_what_waits_for_another_one_is_to_be_run_behind_it() -> None:
    later = orders(from_version=2, to_version=3, migrate=lambda doc: doc | {"third": True})
    memory = MemoryEngine(migrations={"0001_orders.py": orders(), "0002_later.py": later})
    memory.server.collection("orders").insert(*ORDERS)
    memory.register("0001_orders.py")
    memory.register("0002_later.py")
    with pytest.raises(BackgroundPendingError, match=r"0002_later.py waits for 0001_orders.py, which makes version 2"):
        memory.run("0002_later.py")
    assert memory.run("0001_orders.py").status == "completed"
    assert memory.run("0002_later.py").status == "completed"
    assert all(doc["third"] for doc in memory.server.collection("orders").find())


def test_a_pipeline_runs_in_memory_too() -> None:
    done = migrate_in_memory(piped(), [{"_id": 1, "schema_version": 1, "address": "Main St"}])
    assert done.status.status == "completed"
    assert done.documents == [{"_id": 1, "schema_version": 2, "shipping": {"address": "Main St"}, "migrations": 1}]
