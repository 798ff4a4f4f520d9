"""``python -m benchmarks``: run all of it, or a part."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import evolve, frozen
from pymongo import MongoClient

from benchmarks import report
from benchmarks.beside import measure_beside
from benchmarks.commands import measure_commands
from benchmarks.latency import measure_latency
from benchmarks.machine import describe_machine
from benchmarks.memory import measure_lane_memory, measure_planning
from benchmarks.neighbours import Neighbours
from benchmarks.orders import Orders
from benchmarks.recovery import measure_recovery
from benchmarks.results import Results
from benchmarks.server import measured_server
from benchmarks.throughput import PEERS, measure_throughput

_PEERS = tuple(peer.name for peer in PEERS)
_LASTING = 20_000
"""Documents that keep a lane busy for long enough to be watched, or killed."""


@frozen(kw_only=True)
class Options:
    """What to run."""

    documents: int
    repetitions: int
    lease_ttl: float
    only: frozenset[str]

    @property
    def small(self) -> int:
        """Documents for the small one of two memory measurements."""
        return max(1, self.documents // 10)

    @property
    def lasting(self) -> int:
        """Documents where something has to happen while they are migrated."""
        return max(self.documents, _LASTING)

    @property
    def large(self) -> int:
        """Documents for planning, and for the large one."""
        return self.documents * 10


def main(arguments: Sequence[str]) -> int:
    """Measure, write the results, print the table; 1 if a peer did not do its job."""
    options = _options(arguments)
    # Whoever ends us politely should find nothing left of the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with measured_server() as (_, client):
        results = _measure(client, options)
    print(report.markdown(results))
    return 1 if results.throughput.failed else 0


def _measure(client: MongoClient[Any], options: Options) -> Results:
    began, neighbours = time.monotonic(), Neighbours(client.admin.command("serverStatus")["pid"])
    results = Results(
        machine=describe_machine(client),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        documents=options.documents,
        large_documents=options.large,
        repetitions=options.repetitions,
        lease_ttl=options.lease_ttl,
    )
    for name, measure in _MEASUREMENTS.items():
        if options.only.intersection(_PEERS if name == "peers" else (name,)):
            _tell(f"{name} ...")
            # Written as they come: what was found should not be lost with what comes after it.
            results = evolve(results, **measure(client, options))
            results = evolve(results, seconds=time.monotonic() - began, neighbours=neighbours.share())
            report.write(results)
    return results


def _peers(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    found = measure_throughput(
        client, documents=options.documents, repetitions=options.repetitions, names=options.only, tell=_tell
    )
    return {"throughput": found}


def _commands(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    orders = Orders(client, options.documents)
    return {"commands": tuple(measure_commands(orders) for _ in range(options.repetitions))}


def _latency(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    return {"latency": measure_latency(Orders(client, options.lasting), repetitions=options.repetitions)}


def _beside(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    found = measure_beside(client, documents=options.documents, repetitions=options.repetitions, tell=_tell)
    return {"beside": found}


def _recovery(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    orders = Orders(client, options.lasting)
    found = tuple(measure_recovery(orders, lease_ttl=options.lease_ttl) for _ in range(options.repetitions))
    return {"recoveries": found}


def _planning(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    found = tuple(measure_planning(client, documents=options.large) for _ in range(options.repetitions))
    return {"planning": found}


def _memory(client: MongoClient[Any], options: Options) -> dict[str, Any]:
    return {
        "small": measure_lane_memory(client, documents=options.small),
        "large": measure_lane_memory(client, documents=options.large),
    }


_MEASUREMENTS = {
    "peers": _peers,
    "commands": _commands,
    "latency": _latency,
    "beside": _beside,
    "recovery": _recovery,
    "planning": _planning,
    "memory": _memory,
}
_NAMES = (*_MEASUREMENTS, *_PEERS)


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--documents", type=_at_least(100), default=100_000, help="documents to migrate (100000)")
    parser.add_argument("--repetitions", type=_at_least(1), default=3, help="how often each is measured (3)")
    parser.add_argument("--lease-ttl", type=_at_least(1), default=10, help="of the lane that is killed, seconds (10)")
    parser.add_argument(
        "--only",
        type=_names,
        default=frozenset(_NAMES),
        metavar="NAMES",
        help=f"some of these, with commas: {', '.join(_NAMES)}",
    )
    return Options(**vars(parser.parse_args(arguments)))


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return int(text)

    return number


def _names(text: str) -> frozenset[str]:
    names = {name for part in text.split(",") for name in (_PEERS if part == "peers" else (part,))}
    if unknown := names - {*_NAMES}:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}")
    return frozenset(names)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
