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
from benchmarks.commands import measure_commands
from benchmarks.latency import measure_latency
from benchmarks.machine import describe_machine
from benchmarks.memory import measure_lane_memory, measure_planning
from benchmarks.orders import Orders
from benchmarks.recovery import measure_recovery
from benchmarks.results import Results
from benchmarks.server import measured_server
from benchmarks.throughput import PEERS, measure_throughput

_PEERS = tuple(peer.name for peer in PEERS)
_PARTS = ("memory", "planning", "commands", "latency", "recovery")


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
    def large(self) -> int:
        """Documents for planning, and for the large one."""
        return self.documents * 10


def main(arguments: Sequence[str]) -> int:
    """Measure, write the results, print the table; 1 if a peer did not do its job."""
    options = _options(arguments)
    # Whoever ends us politely should find nothing left of the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    with measured_server() as (_, client):
        results = _measure(client, options)
    results = evolve(results, seconds=time.monotonic() - began)
    written = report.write(results)
    print(report.markdown(results))
    print(*written, sep="\n")
    return 1 if results.throughput.failed else 0


def _measure(client: MongoClient[Any], options: Options) -> Results:
    orders = Orders(client, options.documents)
    only, repetitions = options.only, options.repetitions
    results = Results(
        machine=describe_machine(client),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        documents=options.documents,
        large_documents=options.large,
        repetitions=repetitions,
        lease_ttl=options.lease_ttl,
        throughput=measure_throughput(
            client, documents=options.documents, repetitions=repetitions, names=only, tell=_tell
        ),
    )
    if "commands" in only:
        _tell("what a lane waits for")
        results = evolve(results, commands=tuple(measure_commands(orders) for _ in range(repetitions)))
    if "latency" in only:
        _tell("what an application notices")
        results = evolve(results, latency=measure_latency(orders, repetitions=repetitions))
    if "recovery" in only:
        _tell("recovery after kill -9")
        found = tuple(measure_recovery(orders, lease_ttl=options.lease_ttl) for _ in range(repetitions))
        results = evolve(results, recoveries=found)
    return _measure_large(client, options, results)


def _measure_large(client: MongoClient[Any], options: Options, results: Results) -> Results:
    if "planning" in options.only:
        _tell(f"planning {options.large} documents")
        found = tuple(measure_planning(client, documents=options.large) for _ in range(options.repetitions))
        results = evolve(results, planning=found)
    if "memory" in options.only:
        _tell(f"memory of a lane over {options.small} and {options.large} documents")
        results = evolve(
            results,
            small=measure_lane_memory(client, documents=options.small),
            large=measure_lane_memory(client, documents=options.large),
        )
    return results


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--documents", type=_at_least(100), default=100_000, help="documents to migrate (100000)")
    parser.add_argument("--repetitions", type=_at_least(1), default=3, help="how often each is measured (3)")
    parser.add_argument("--lease-ttl", type=_at_least(1), default=10, help="of the lane that is killed, seconds (10)")
    parser.add_argument(
        "--only",
        type=_names,
        default=frozenset((*_PEERS, *_PARTS)),
        metavar="NAMES",
        help=f"with commas: peers (for all of them), {', '.join(_PEERS + _PARTS)}",
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
    if unknown := names - {*_PEERS, *_PARTS}:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}")
    return frozenset(names)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
