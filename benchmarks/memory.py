"""A large collection: how long planning takes, how much memory a lane needs, whether its progress tells the truth."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from attrs import field, frozen
from pymongo import MongoClient

from benchmarks.lane import LaneProcess
from benchmarks.orders import Orders, WrongResultError
from benchmarks.ours import FILE, Settings, registered
from migronaut import Migrator
from migronaut.engine.stopping import StopEvent

_LOOK = 0.5
_LANES = 4


@frozen(kw_only=True)
class Look:
    """The progress as told at one moment: seconds since the start, documents done, seconds left."""

    at: float
    done: int
    eta: tuple[float, float] | None


@frozen(kw_only=True)
class LaneMemory:
    """One lane over one collection.

    Args:
        before: Bytes held before it began.
        peak: The most it held.
        looks: Its progress on the way, as told by the status.
    """

    documents: int
    seconds: float
    before: int
    peak: int
    looks: tuple[Look, ...] = field(repr=False)

    def errors_of_time_left(self) -> list[float]:
        """At a quarter, half and three quarters: how far the middle of the told range was off, as a share."""
        if not any(look.eta for look in self.looks):
            return []
        nearest = [min(self.looks, key=lambda look: abs(look.at - share * self.seconds)) for share in (0.25, 0.5, 0.75)]
        return [round(_error(look, self.seconds), 2) for look in nearest if look.eta]

    @property
    def steady(self) -> bool:
        """The number of documents done never went back."""
        return all(one.done <= other.done for one, other in pairwise(self.looks))


def measure_lane_memory(client: MongoClient[Any], *, documents: int) -> LaneMemory:
    """Migrate so many orders with one lane, in a process of its own."""
    orders = Orders(client, documents)
    orders.fresh()
    with registered(orders, Settings()) as migrator, LaneProcess.beside(migrator, orders) as lane:
        start = time.perf_counter()
        lane.go()
        looks = _watch(migrator, lane, start)
        seconds = time.perf_counter() - start
        told = lane.result()
    orders.verify()
    return LaneMemory(documents=documents, seconds=seconds, before=told["before"], peak=told["peak"], looks=looks)


def measure_planning(client: MongoClient[Any], *, documents: int) -> float:
    """Seconds until the plan for four lanes is made; nothing is migrated."""
    orders = Orders(client, documents)
    orders.fresh()
    with registered(orders, Settings(max_parallel=_LANES)) as migrator:
        start = time.perf_counter()
        migrator.background.engine.coordinate(FILE, owner=migrator.owner, stop=StopEvent())
        seconds = time.perf_counter() - start
        planned = sum(migrator.background.status(FILE).partitions.values())
    if not planned:
        raise WrongResultError("Nothing was planned.")
    return seconds


def _watch(migrator: Migrator, lane: LaneProcess, start: float) -> tuple[Look, ...]:
    looks: list[Look] = []
    while not lane.told(within=_LOOK):
        progress = migrator.background.status(FILE).progress
        low, high = progress.eta_low, progress.eta_high
        eta = None if low is None else (low, low if high is None else high)
        looks.append(Look(at=time.perf_counter() - start, done=progress.done, eta=eta))
    return tuple(looks)


def _error(look: Look, total: float) -> float:
    low, high = look.eta or (0.0, 0.0)
    left = total - look.at
    return abs((low + high) / 2 - left) / left
