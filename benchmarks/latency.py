"""What an application notices of a migration: how long its own writes take, idle and meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from attrs import frozen

from benchmarks.lane import LaneProcess, uri_of
from benchmarks.orders import Orders
from benchmarks.ours import FILE, Settings, registered
from migronaut import Migrator

_WINDOW = 8.0
"""Seconds of writing that are looked at."""
_PHASES: Mapping[str, Settings | None] = {
    "idle": None,
    "default_pause": Settings(pause=None),
    "no_pause": Settings(),
}


@frozen(kw_only=True)
class Latency:
    """Milliseconds that a write of the application took, by what went on meanwhile; one figure a repetition."""

    p50: Mapping[str, Sequence[float]]
    p99: Mapping[str, Sequence[float]]
    writes: Mapping[str, int]

    def ratio(self, phase: str) -> float:
        """The 99th percentile against the idle one, as the median over the repetitions."""
        pairs = zip(self.p99[phase], self.p99["idle"], strict=True)
        return round(median(busy / idle for busy, idle in pairs), 2)

    def as_json(self) -> dict[str, Any]:
        """Medians by phase."""
        return {
            phase: {
                "p50_ms": round(median(self.p50[phase]), 2),
                "p99_ms": round(median(self.p99[phase]), 2),
                "p99_ms_repetitions": [round(each, 2) for each in self.p99[phase]],
                "writes": self.writes[phase],
            }
            for phase in _PHASES
        }


def measure_latency(orders: Orders, *, repetitions: int) -> Latency:
    """Let an application write while nothing else happens, and while a lane migrates its collection."""
    p50: dict[str, list[float]] = {phase: [] for phase in _PHASES}
    p99: dict[str, list[float]] = {phase: [] for phase in _PHASES}
    writes = dict.fromkeys(_PHASES, 0)
    for _ in range(repetitions):
        for phase, settings in _PHASES.items():
            took = _phase(orders, settings)
            cuts = quantiles(took, n=100)
            p50[phase].append(cuts[49] * 1000)
            p99[phase].append(cuts[98] * 1000)
            writes[phase] += len(took)
    return Latency(p50=p50, p99=p99, writes=writes)


def _phase(orders: Orders, settings: Settings | None) -> list[float]:
    orders.fresh()
    with LaneProcess("benchmarks.application", uri_of(orders), str(orders.documents), "send") as application:
        if settings is None:
            application.go()
            time.sleep(_WINDOW)
        else:
            with registered(orders, settings) as migrator, LaneProcess.beside(migrator, orders) as lane:
                lane.go()
                _wait_for_start(migrator)
                application.go()
                # Writes after the end of the migration would make it look gentler than it is.
                lane.told(within=_WINDOW)
                application.close()
        application.close()
        return [took for _, _, took, _ in application.result()]


def _wait_for_start(migrator: Migrator) -> None:
    while not migrator.background.status(FILE).progress.done:
        time.sleep(0.02)
