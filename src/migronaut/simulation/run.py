"""One seed from its beginning to its end: first the weather, then calm, then a look at what is left."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from attrs import frozen

from migronaut.core.state import Status
from migronaut.memory.clock import FakeClock
from migronaut.simulation.actor import Actor
from migronaut.simulation.actors import beat, bystander, runner, worker
from migronaut.simulation.application import application
from migronaut.simulation.closing import Closing, look_at_the_end
from migronaut.simulation.decisions import Decisions
from migronaut.simulation.faults import CALM
from migronaut.simulation.indexes import administrator
from migronaut.simulation.ledger import APPLICATION
from migronaut.simulation.operating import deploy, operator
from migronaut.simulation.perils import NONE, Peril
from migronaut.simulation.queue import QueueFactory, SimulatedMemoryQueue
from migronaut.simulation.scenario import scenario_of
from migronaut.simulation.scheduler import Scheduler
from migronaut.simulation.strangers import forger, neighbour_of
from migronaut.simulation.violation import Violation
from migronaut.simulation.world import World

MAX_STEPS = 12_000
"""A hint that was lost five times is sent again after a quarter of an hour: that alone takes thousands of polls."""
_WEATHER = 1_200
"""Points after which faults stop in any case."""


@frozen(kw_only=True)
class Result:
    """What became of one seed.

    Args:
        schedule: Every decision of the scheduler, for a replay.
        trace: Time, actor, point, and what happened there; of a violation only.
        seen: How often each thing happened, of faults, statuses and ends.
    """

    seed: int
    violation: Violation | None
    schedule: Sequence[int]
    trace: Sequence[tuple[float, str, str, str]]
    seen: Counter[str]
    steps: int


def simulate(
    seed: int,
    *,
    schedule: Sequence[int] | None = None,
    queue: QueueFactory = SimulatedMemoryQueue,
    perils: Collection[Peril] = NONE,
    max_steps: int = MAX_STEPS,
    keep_trace: bool = False,
) -> Result:
    """Run one seed.

    Args:
        schedule: Decisions to replay instead of drawing them; 0 after its end.
        queue: What makes the queue under test.
        perils: Those that the seed may have.
        max_steps: Points after which it counts as endless.
        keep_trace: Also without a violation.
    """
    decisions = Decisions(Random(f"decisions {seed}") if schedule is None else None, recorded=schedule or ())
    clock = FakeClock()
    scheduler = Scheduler(decisions, clock, max_steps=max_steps)
    world = World(scenario_of(seed, perils), scheduler, clock, queue)
    with _silence():
        try:
            _run(world)
        finally:
            scheduler.close()
    seen = scheduler.seen + Counter({f"status {name}": number for name, number in world.invariants.statuses.items()})
    return Result(
        seed=seed,
        violation=scheduler.violation,
        schedule=tuple(decisions.taken),
        trace=tuple(scheduler.trace) if keep_trace or scheduler.violation is not None else (),
        seen=seen,
        steps=scheduler.steps,
    )


def _run(world: World) -> None:
    scheduler, scenario = world.scheduler, world.scenario
    world.register()
    if scenario.seed % 3:
        world.enqueue()
    workers = tuple(f"worker-{number}" for number in range(scenario.workers))
    runners = tuple(f"runner-{number}" for number in range(scenario.runners))
    world.begin()
    busy = [application(world), operator(world, scenario.orders), deploy(world, workers + runners)]
    for actor in [*(worker(world, each) for each in workers), *(runner(world, each) for each in runners), *busy]:
        scheduler.start(actor)
    scheduler.start(beat(world))
    if scenario.perils & {Peril.FAILOVER, Peril.WAKE}:
        scheduler.start(bystander(world))
    for actor in _strangers(world):
        scheduler.start(actor)
    scheduler.weights = scenario.weights
    scheduler.happenings.on_restart = world.queue.restart_empty
    scheduler.happenings.on_failover = world.lose_primary
    scheduler.run(lambda: scheduler.steps >= _WEATHER or _is_over(world))
    if scheduler.violation is not None:
        return
    scheduler.weights, scheduler.happenings.on_restart, world.calm = CALM, None, True
    scheduler.away_until = scheduler.lags_until = 0.0
    if world.neighbour is not None:
        world.neighbour.calm = True
    closing = Closing(world)
    scheduler.start(closing.actor)
    scheduler.run(lambda: closing.over)
    for installation in (world, world.neighbour):
        if installation is not None and scheduler.violation is None:
            look_at_the_end(installation)
    for state in world.states():
        left_out = state.status is Status.COMPLETED and state.left_out
        scheduler.seen[f"end {state.status}{' with documents left out' if left_out else ''}"] += 1


def _strangers(world: World) -> Iterator[Actor]:
    """Who else is there in a world of that kind."""
    scenario, scheduler = world.scenario, world.scheduler
    if Peril.INDEX in scenario.perils:
        yield administrator(world.index, scheduler, Random(f"administrator {scenario.seed}"))
    if Peril.FORGERY in scenario.perils:
        yield forger(world)
    if Peril.NEIGHBOUR in scenario.perils:
        other = neighbour_of(world, lambda theirs: World(theirs, scheduler, world.clock, lambda *_: world.queue))
        other.register()
        other.enqueue()
        yield worker(other, "other-worker")
        yield beat(other, "other-beat")


def _is_over(world: World) -> bool:
    return not any(actor.name in {APPLICATION, "deploy"} for actor in world.scheduler.actors) and world.settled()


@contextmanager
def _silence() -> Iterator[None]:
    """The engine warns of every fault; thousands of them tell nothing."""
    logger = logging.getLogger("migronaut")
    before, logger.disabled = logger.level, False
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
