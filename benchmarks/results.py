"""What a run found, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from attrs import asdict, frozen

from benchmarks.beside import Beside
from benchmarks.commands import Commands
from benchmarks.latency import Latency
from benchmarks.machine import Machine
from benchmarks.memory import LaneMemory
from benchmarks.recovery import Recovery
from benchmarks.throughput import Throughput

MILLION = 1_000_000


@frozen(kw_only=True)
class Results:
    """One run; what was not asked for is empty.

    Args:
        started: When, as ISO 8601.
        seconds: How long all of it took.
        small, large: One lane over few documents and over many.
        planning: Seconds, one figure a repetition, for ``large_documents``.
        beside: Each way beside an application, once a repetition.
        neighbours: The part of the machine that others used meanwhile, 0 to 1.
        lease_ttl: Seconds that the lease of the killed lane was worth.
    """

    machine: Machine
    started: str
    documents: int
    large_documents: int
    repetitions: int
    lease_ttl: float
    throughput: Throughput = Throughput(rates={})
    small: LaneMemory | None = None
    large: LaneMemory | None = None
    planning: tuple[float, ...] = ()
    commands: tuple[Commands, ...] = ()
    latency: Latency | None = None
    beside: Mapping[str, Sequence[Beside]] = {}
    recoveries: tuple[Recovery, ...] = ()
    seconds: float = 0.0
    neighbours: float | None = None

    @property
    def memory_growth_mb(self) -> float | None:
        """How much more a lane held at its peak over many documents than over few."""
        if self.small is None or self.large is None:
            return None
        return round((self.large.peak - self.small.peak) / 1e6, 1)

    @property
    def plan_seconds(self) -> float | None:
        """Median time of planning."""
        return round(median(self.planning), 2) if self.planning else None

    @property
    def typical(self) -> Commands | None:
        """The run whose checkpoint share is the median."""
        ordered = sorted(self.commands, key=lambda each: each.checkpoint_share)
        return ordered[len(ordered) // 2] if ordered else None

    @property
    def recovery_seconds(self) -> float | None:
        """Median time from a kill to the first checkpoint of the next lane."""
        return round(median(each.seconds for each in self.recoveries), 1) if self.recoveries else None

    def as_json(self) -> dict[str, Any]:
        """All of it; the ratios and the single figures first."""
        typical, latency = self.typical, self.latency
        return {
            "ratios": self.throughput.ratios(),
            "two_lanes_are": self.throughput.best_two_lanes(),
            "memory_growth_mb": self.memory_growth_mb,
            "plan_seconds_1m": self.plan_seconds if self.large_documents == MILLION else None,
            "checkpoint_share": round(typical.checkpoint_share, 4) if typical else None,
            "app_p99_ratio": latency.ratio("default_pause") if latency else None,
            "app_p99_ratio_no_pause": latency.ratio("no_pause") if latency else None,
            "recovery_seconds": self.recovery_seconds,
            "lease_ttl": self.lease_ttl,
            "documents": self.documents,
            "repetitions": self.repetitions,
            "failed": dict(self.throughput.failed),
            "throughput": self.throughput.as_json(),
            "lane_memory": [_memory(each) for each in (self.small, self.large) if each],
            "planning": {"documents": self.large_documents, "seconds": [round(each, 3) for each in self.planning]},
            "commands": typical.as_json() if typical else None,
            "latency": latency.as_json() if latency else None,
            "beside_an_application": {way: beside_as_json(found) for way, found in self.beside.items() if found},
            "recoveries": [
                {"seconds": round(each.seconds, 1), "until_completed": round(each.until_completed, 1)}
                for each in self.recoveries
            ],
            "used_by_others": self.neighbours,
            "machine": asdict(self.machine),
            "started": self.started,
            "seconds": round(self.seconds),
        }


def beside_as_json(found: Sequence[Beside]) -> dict[str, Any]:
    """One way: what happened in all repetitions together, and the median of what its writes took."""
    counted = ("documents", "writes", "lost", "errors", "aborted", "failed", "left")
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in found) for name in counted}
    return {**sums, "p99_ms": round(median(each.p99 for each in found), 2)}


def _memory(lane: LaneMemory) -> dict[str, Any]:
    return {
        "documents": lane.documents,
        "seconds": round(lane.seconds, 1),
        "before_mb": round(lane.before / 1e6, 1),
        "peak_mb": round(lane.peak / 1e6, 1),
        "errors_of_time_left": lane.errors_of_time_left(),
        "progress_never_went_back": lane.steady,
    }
