"""``python -m migronaut.simulation``: many seeds of the simulation, or one of them again."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from migronaut.simulation import QueueFactory, Result, SimulatedMemoryQueue, simulate
from migronaut.simulation.decisions import from_text, to_text
from migronaut.simulation.mutations import MUTATIONS, mutation
from migronaut.simulation.perils import ALL, NONE, Peril
from migronaut.simulation.shrink import shortened

_TAIL = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate; 1 when an invariant was violated, with the seed, the shortened schedule and how to replay it."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.replay is not None and options.seed is None:
        parser.error("--replay repeats the decisions of one seed: name it with --seed")
    if options.seed is not None:
        seeds: Sequence[int] = [options.seed]
    else:
        seeds = range(options.start, options.start + options.seeds)
    started = perf_counter()
    seen: Counter[str] = Counter()
    done = 0
    run = partial(_run, schedule=options.replay, options=options)
    for result in _results(seeds, run, jobs=options.jobs):
        done += 1
        seen += result.seen
        if result.violation is not None:
            _say_violation(result, options)
            return 1
    _say(f"{done} seeds in {perf_counter() - started:.1f} s, no violation")
    _say(f"  {'':36} {'in all':>9} {'per 1000 seeds':>16}")
    for what, number in sorted(seen.items()):
        _say(f"  {what:36} {number:9} {1000 * number / done:16.0f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m migronaut.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run (200)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--replay", type=from_text, metavar="SCHEDULE", help="decisions to repeat, with --seed")
    parser.add_argument("--mutate", choices=sorted(MUTATIONS), help="take this guard away: it must fail")
    parser.add_argument("--queue", metavar="MODULE:NAME", help="what makes the queue under test (the memory queue)")
    parser.add_argument(
        "--with", type=_perils, default=NONE, dest="perils", metavar="PERIL,...", help=f"all, or of: {', '.join(Peril)}"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    return parser


def _results(seeds: Sequence[int], run: Callable[[int], Result], *, jobs: int) -> Iterator[Result]:
    if len(seeds) == 1:
        yield run(seeds[0])
        return
    spawn = get_context("spawn")
    with spawn.Pool(jobs, initializer=_stay, initargs=(spawn.Value("i", 0),)) as pool:
        yield from pool.imap(run, seeds, chunksize=8)


def _stay(number: Any) -> None:
    """Keep a process on one processor: handing the baton to a thread on another one takes several times as long."""
    with number.get_lock():
        mine, number.value = number.value, number.value + 1
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[mine % len(processors)]})


def _run(seed: int, *, schedule: Sequence[int] | None, options: argparse.Namespace) -> Result:
    with mutation(options.mutate):
        return simulate(seed, schedule=schedule, queue=_queue(options.queue), perils=options.perils)


def _perils(text: str) -> frozenset[Peril]:
    """What ``--with`` names."""
    return ALL if text == "all" else frozenset(Peril(each) for each in text.split(",") if each)


def _queue(path: str | None) -> QueueFactory:
    """What ``module:name`` names."""
    if path is None:
        return SimulatedMemoryQueue
    module, _, name = path.partition(":")
    factory: QueueFactory = getattr(import_module(module), name)
    return factory


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say_violation(result: Result, options: argparse.Namespace) -> None:
    """The seed, the way to the violation, the schedule as short as it gets, and how to see it again."""
    _say(f"seed {result.seed}: {result.violation}")
    if options.replay is None:
        run = partial(_run, result.seed, options=options)
        wanted = _kind(result)
        result = run(schedule=shortened(result.schedule, lambda shorter: _kind(run(schedule=shorter)) == wanted))
    if result.violation is not None and result.violation.cause is not None:
        _say(result.violation.cause)
    for time, actor, point, what in result.trace[-_TAIL:]:
        _say(f"{time:10.2f} s  {actor:14} {point:40} {what}")
    _say(f"shortened schedule: {sum(map(bool, result.schedule))} decisions, {result.steps} steps: {result.violation}")
    words = ["python -m migronaut.simulation --seed", str(result.seed)]
    words += ["--with", ",".join(sorted(options.perils))] if options.perils else []
    words += ["--mutate", options.mutate] if options.mutate else []
    words += ["--queue", options.queue] if options.queue else []
    _say(" ".join([*words, "--replay", to_text(result.schedule)]))


def _kind(result: Result) -> str | None:
    return None if result.violation is None else result.violation.invariant
