"""The peers one after the other, several times over: documents per second, and how they compare."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

from attrs import frozen
from pymongo import MongoClient

from benchmarks import by_beanie, by_mongomig, ours, peers
from benchmarks.orders import Orders
from benchmarks.peers import Job


@frozen(kw_only=True)
class Peer:
    """One way to do the job.

    Args:
        label: For the table and the chart.
        share: The part of the documents that it gets; less than 1 for one whose time would fill the day. Its cost
            per document does not depend on their number.
        there: Whether it can run here.
    """

    name: str
    label: str
    make: Callable[[Orders], AbstractContextManager[Job]]
    share: float = 1.0
    there: Callable[[], bool] = lambda: True


PEERS: tuple[Peer, ...] = (
    Peer(name="naive", label="naive: find, update_one each", make=peers.naive, share=0.1),
    Peer(name="beanie", label="Beanie, iterative migration", make=by_beanie.beanie, there=by_beanie.has_beanie),
    Peer(
        name="mongomig_loop",
        label="mongomig, transactional loop",
        make=by_mongomig.loop,
        there=by_mongomig.has_mongomig,
    ),
    Peer(
        name="mongomig_backfill", label="mongomig, backfill", make=by_mongomig.backfill, there=by_mongomig.has_mongomig
    ),
    Peer(name="hand", label="by hand: guarded bulk_write loop", make=peers.hand),
    Peer(name="hand_raw", label="by hand, with raw update commands", make=peers.hand_raw),
    Peer(name="migrate", label="migronaut, one lane", make=ours.migrate),
    Peer(name="migrate_two_threads", label="migronaut, two lanes in a process", make=ours.two_threads),
    Peer(name="migrate_two_processes", label="migronaut, two processes", make=ours.two_processes),
    Peer(name="pipeline", label="migronaut, pipeline", make=ours.pipeline, there=ours.takes_pipelines),
    Peer(name="server", label="limit: one update_many", make=peers.server),
)
_LONGEST_TEXT = 200
_TWO_LANES = ("migrate_two_threads", "migrate_two_processes")


@frozen(kw_only=True)
class Throughput:
    """Documents per second of each peer, one figure a repetition.

    Args:
        failed: Why a peer has no figure, by name.
    """

    rates: Mapping[str, Sequence[float]]
    failed: Mapping[str, str] = {}

    def middle(self, name: str) -> float | None:
        """The median of a peer; None when it did not run."""
        found = self.rates.get(name)
        return median(found) if found else None

    def ratio(self, name: str, other: str) -> float | None:
        """How many times as fast, as the median over the repetitions: what disturbs one disturbs both."""
        pairs = list(zip(self.rates.get(name, ()), self.rates.get(other, ()), strict=False))  # one may not have run
        return round(median(one / another for one, another in pairs), 2) if pairs else None

    def ratios(self) -> dict[str, float | None]:
        """What is claimed in README and docs; None where one of the two did not run."""
        best = self.best_two_lanes()
        return {
            "migrate_vs_hand": self.ratio("migrate", "hand"),
            "migrate_vs_hand_raw": self.ratio("migrate", "hand_raw"),
            "migrate_vs_naive": self.ratio("migrate", "naive"),
            "migrate_vs_beanie": self.ratio("migrate", "beanie"),
            "migrate_vs_mongomig": self.ratio("migrate", "mongomig_loop"),
            "pipeline_vs_hand": self.ratio("pipeline", "hand"),
            "pipeline_vs_mongomig": self.ratio("pipeline", "mongomig_backfill"),
            "pipeline_vs_server": self.ratio("pipeline", "server"),
            "two_lanes_vs_one": self.ratio(best, "migrate") if best else None,
            "two_lanes_vs_mongomig": self.ratio(best, "mongomig_loop") if best else None,
        }

    def best_two_lanes(self) -> str | None:
        """The better of the two ways to run two lanes."""
        ran = [name for name in _TWO_LANES if self.rates.get(name)]
        return max(ran, key=lambda name: self.middle(name) or 0.0) if ran else None

    def as_json(self) -> dict[str, Any]:
        """All figures by peer."""
        return {
            name: {"documents_per_second": round(median(found)), "repetitions": [round(rate) for rate in found]}
            for name, found in self.rates.items()
        }


def measure_throughput(
    client: MongoClient[Any],
    *,
    documents: int,
    repetitions: int,
    names: Collection[str],
    tell: Callable[[str], None],
) -> Throughput:
    """Let the peers do the job in turn, ``repetitions`` times; each gets fresh orders, each result is verified.

    A peer that raises, or leaves something undone, does not run again and has no figure.
    """
    chosen = [peer for peer in PEERS if peer.name in names and peer.there()]
    rates: dict[str, list[float]] = {peer.name: [] for peer in chosen}
    failed: dict[str, str] = {}
    for repetition in range(repetitions):
        # Nobody is always the one who comes after the slowest.
        start = repetition * len(chosen) // repetitions
        for peer in chosen[start:] + chosen[:start]:
            if peer.name in failed:
                continue
            try:
                rate = _one(client, peer, max(1, round(documents * peer.share)))
            except Exception as error:
                failed[peer.name] = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
                tell(f"{repetition + 1}/{repetitions}  {peer.name} failed: {failed[peer.name]}")
            else:
                rates[peer.name].append(rate)
                tell(f"{repetition + 1}/{repetitions}  {peer.name}: {rate:,.0f} documents/s")
    return Throughput(rates={name: found for name, found in rates.items() if name not in failed}, failed=failed)


def _one(client: MongoClient[Any], peer: Peer, documents: int) -> float:
    orders = Orders(client, documents)
    orders.fresh()
    with peer.make(orders) as job:
        gc.collect()
        start = time.perf_counter()
        job()
        seconds = time.perf_counter() - start
    orders.verify()
    return documents / seconds
