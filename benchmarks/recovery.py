"""After ``kill -9`` of a process with a lane: when does another one go on with its partition?"""

from __future__ import annotations

import time
from typing import Any

from attrs import frozen

from benchmarks.lane import LaneProcess
from benchmarks.orders import Orders
from benchmarks.ours import FILE, Settings, registered
from migronaut import Migrator

_LANES = 2
_LOOK = 0.02
_LONGEST = 300.0


@frozen(kw_only=True)
class Recovery:
    """One kill.

    Args:
        seconds: From the kill to the first checkpoint of another lane on the partition that was left behind.
        until_completed: From the kill to the end of the migration.
    """

    seconds: float
    until_completed: float


def measure_recovery(orders: Orders, *, lease_ttl: float) -> Recovery:
    """Two processes with a lane each, pauses as by default; one is killed while it holds a lease."""
    orders.fresh()
    with registered(orders, Settings(max_parallel=_LANES, pause=None)) as migrator:
        partitions = orders.db["_migronaut_background_partitions"]
        with (
            LaneProcess.beside(migrator, orders, lease_ttl=lease_ttl) as survivor,
            LaneProcess.beside(migrator, orders, lease_ttl=lease_ttl) as victim,
        ):
            victim.go()
            survivor.go()
            left = _held_by(victim, partitions)
            victim.kill()
            killed = time.perf_counter()
            [batches] = partitions.distinct("counters.batches", {"_id": left})
            reclaimed = {"_id": left, "counters.reclaims": {"$gte": 1}, "counters.batches": {"$gt": batches}}
            _wait_for(lambda: partitions.find_one(reclaimed))
            seconds = time.perf_counter() - killed
            _wait_for(lambda: _completed(migrator))
            completed = time.perf_counter() - killed
    orders.verify()
    return Recovery(seconds=seconds, until_completed=completed)


def _held_by(victim: LaneProcess, partitions: Any) -> Any:
    """The partition that the victim works on, once both lanes are at work and it has made a checkpoint."""
    at_work = {"lease.slot": {"$exists": True}}
    of_victim = {"lease.pid": victim.pid, "counters.batches": {"$gte": 1}}
    _wait_for(lambda: partitions.count_documents(at_work) == _LANES and partitions.find_one(of_victim))
    return partitions.find_one(of_victim)["_id"]


def _completed(migrator: Migrator) -> bool:
    return migrator.background.status(FILE).status == "completed"


def _wait_for(seen: Any) -> None:
    deadline = time.monotonic() + _LONGEST
    while not seen():
        if time.monotonic() > deadline:
            raise RuntimeError("A killed lane was not replaced in time.")
        time.sleep(_LOOK)
