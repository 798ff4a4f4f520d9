"""Where the time of a lane goes: each command it waits for, the checkpoint among them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from pymongo import MongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from benchmarks.lane import uri_of
from benchmarks.orders import ORDERS, Orders
from benchmarks.ours import FILE, Settings, registered


@frozen(kw_only=True)
class Commands:
    """One run of one lane.

    Args:
        seconds: From start to end.
        cpu: Seconds of them that our own process was computing.
        spent: Seconds that were waited for each kind of command.
        counts: How many there were of each.
    """

    documents: int
    seconds: float
    cpu: float
    spent: Mapping[str, float]
    counts: Mapping[str, int]

    @property
    def checkpoint_share(self) -> float:
        """The part of the whole time in which a checkpoint was waited for."""
        return self.spent.get("checkpoint", 0.0) / self.seconds

    def as_json(self) -> dict[str, Any]:
        """Milliseconds for 1000 documents: in all, waiting for each command, and in our own process."""
        scale = 1000 / (self.documents / 1000)
        waited = {kind: round(seconds * scale, 2) for kind, seconds in sorted(self.spent.items())}
        own = self.seconds - sum(self.spent.values())
        return {
            "ms_per_1000_documents": round(self.seconds * scale, 2),
            "waiting_for": waited,
            "in_the_client": round(own * scale, 2),
            "cpu_of_the_client": round(self.cpu * scale, 2),
            "commands": dict(sorted(self.counts.items())),
        }


class _Watch(CommandListener):
    """Adds up what the driver tells: from sending a command to the reply."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._kinds: dict[int, str] = {}

    def clear(self) -> None:
        self.spent.clear()
        self.counts.clear()

    def started(self, event: CommandStartedEvent) -> None:
        self._kinds[event.request_id] = _kind(event)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._ended(event)

    def failed(self, event: CommandFailedEvent) -> None:
        self._ended(event)

    def _ended(self, event: CommandSucceededEvent | CommandFailedEvent) -> None:
        kind = self._kinds.pop(event.request_id)
        self.spent[kind] = self.spent.get(kind, 0.0) + event.duration_micros / 1e6
        self.counts[kind] = self.counts.get(kind, 0) + 1


def _kind(event: CommandStartedEvent) -> str:
    name, collection = event.command_name, event.command.get(event.command_name)
    if name == "commitTransaction":
        return "commit"
    if collection == ORDERS and name == "find":
        return "transaction read" if "txnNumber" in event.command else "read"
    if collection == ORDERS and name == "update":
        return "update"
    if name == "update" and str(collection).endswith("_partitions"):
        return "checkpoint"
    if name == "find" and str(collection) == "_migronaut_background":
        return "control read"
    return "other"


def measure_commands(orders: Orders) -> Commands:
    """Migrate with one lane while listening to the driver."""
    orders.fresh()
    watch = _Watch()
    with (
        MongoClient[Any](uri_of(orders), event_listeners=[watch]) as client,
        registered(orders, Settings(), client=client) as migrator,
    ):
        watch.clear()
        start, computed = time.perf_counter(), time.process_time()
        migrator.background.run(FILE)
        seconds, cpu = time.perf_counter() - start, time.process_time() - computed
        spent, counts = dict(watch.spent), dict(watch.counts)
    orders.verify()
    return Commands(documents=orders.documents, seconds=seconds, cpu=cpu, spent=spent, counts=counts)
