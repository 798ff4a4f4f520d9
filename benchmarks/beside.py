"""What each way does to an application that writes meanwhile: what it loses, what it sees, and how long it waits.

The application knows what it wrote. When both have ended, that is compared with what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import quantiles
from typing import Any

from attrs import frozen
from pymongo import MongoClient

from benchmarks.lane import LaneProcess, uri_of
from benchmarks.orders import Orders, order, order_id
from benchmarks.peers import Job
from benchmarks.throughput import PEERS, Peer

_BESIDE = frozenset({"naive", "beanie", "mongomig_loop", "mongomig_backfill", "hand", "migrate", "pipeline"})
_SHARES = {"beanie": 0.2}
"""The part of the documents of a way that begins anew whenever it meets a write."""
_WINDOW = 8.0
"""Seconds of writing while nothing else happens."""
_AGAIN_FOR = 30.0
"""Seconds for which a way that fails is started again."""
_CHUNK = 1000


@contextmanager
def _nothing(_: Orders) -> Iterator[Job]:
    yield lambda: time.sleep(_WINDOW)


IDLE = Peer(name="idle", label="nothing", make=_nothing)
WAYS: tuple[Peer, ...] = (IDLE, *(peer for peer in PEERS if peer.name in _BESIDE))


@frozen(kw_only=True)
class Written:
    """One write of the application.

    Args:
        number: Of the order.
        street: What was written into the field that is migrated.
        made: Whether it was acknowledged, and had found its order.
    """

    number: int
    street: str
    seconds: float
    made: bool


@frozen(kw_only=True)
class Beside:
    """One way beside the application, once.

    Args:
        writes: Those that were made.
        lost: Those of them that are not there at the end.
        errors: Writes that failed, or did not find their order.
        p99: The 99th percentile of the milliseconds that they took.
        aborted: Transactions that the server aborted; the application has none.
        failed: Runs of the migration that ended with an error.
        left: Those of the documents that are still in their old shape.
    """

    documents: int
    writes: int
    lost: int
    errors: int
    p99: float
    aborted: int
    failed: int
    left: int


def measure_beside(
    client: MongoClient[Any], *, documents: int, repetitions: int, tell: Callable[[str], None]
) -> Mapping[str, Sequence[Beside]]:
    """Let the ways do the job in turn, ``repetitions`` times, each beside an application of its own."""
    found: dict[str, list[Beside]] = {way.name: [] for way in WAYS if way.there()}
    for repetition in range(repetitions):
        for way in WAYS:
            if way.name in found:
                share = _SHARES.get(way.name, way.share)
                seen = run_beside(Orders(client, max(1, round(documents * share))), way)
                found[way.name].append(seen)
                tell(f"{repetition + 1}/{repetitions}  {way.name}: {seen.lost} of {seen.writes} writes lost")
    return found


def run_beside(orders: Orders, way: Peer) -> Beside:
    """One way beside the application; started again when it fails, as its user would."""
    orders.fresh()
    aborted = _aborted(orders)
    with (
        way.make(orders) as job,
        LaneProcess("benchmarks.application", uri_of(orders), str(orders.documents), "move") as application,
    ):
        application.go()
        failed = _until_done(job)
        application.close()
        told = [
            Written(number=number, street=street, seconds=took, made=made)
            for number, street, took, made in application.result()
        ]
    return Beside(
        documents=orders.documents,
        writes=sum(each.made for each in told),
        lost=lost_writes(orders, told),
        errors=sum(not each.made for each in told),
        p99=quantiles((each.seconds for each in told), n=100)[98] * 1000 if len(told) > 1 else 0.0,
        aborted=_aborted(orders) - aborted,
        failed=failed,
        left=0 if way is IDLE else orders.collection.count_documents({"schema_version": 1}),
    )


def _until_done(job: Job) -> int:
    """How many runs failed before one did not, or there was no time for another."""
    failed, deadline = 0, time.monotonic() + _AGAIN_FOR
    while time.monotonic() < deadline:
        try:
            job()
        except Exception:  # each way has its own
            failed += 1
        else:
            break
    return failed


def lost_writes(orders: Orders, told: Sequence[Written]) -> int:
    """How many of the writes that were made are not there, at least: a later write may hide that one before it is gone.

    Orders with a write that may or may not have been made say nothing.
    """
    unsure = {each.number for each in told if not each.made}
    made: dict[int, list[str]] = {}
    for each in told:
        if each.number not in unsure:
            made.setdefault(each.number, []).append(each.street)
    stored = _stored(orders, made)
    return sum(_lost(stored.get(number), number, streets) for number, streets in made.items())


def _lost(stored: Mapping[str, Any] | None, number: int, streets: Sequence[str]) -> int:
    """Of one order: every write adds one to a quantity, and the last one's street is there."""
    if stored is None:
        return len(streets)
    missing: int = order(number)["items"][0]["quantity"] + len(streets) - stored["items"][0]["quantity"]
    address = stored["shipping"]["address"] if "shipping" in stored else stored["address"]
    return max(missing, int(address["street"] != streets[-1]))


def _stored(orders: Orders, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    by_id = {order_id(number): number for number in numbers}
    ids, found = list(by_id), {}
    for start in range(0, len(ids), _CHUNK):
        for stored in orders.collection.find({"_id": {"$in": ids[start : start + _CHUNK]}}):
            found[by_id[stored["_id"]]] = stored
    return found


def _aborted(orders: Orders) -> int:
    return int(orders.client.admin.command("serverStatus")["transactions"]["totalAborted"])
