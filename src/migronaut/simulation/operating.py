"""Who decides: an operator, and a deploy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import evolve

from migronaut.core.state import TERMINAL, BackgroundState, Direction, Status
from migronaut.engine.operator import controls
from migronaut.engine.operator.controls import Controlled
from migronaut.engine.operator.registering import register
from migronaut.engine.operator.status import status_of
from migronaut.engine.states import Request
from migronaut.memory.running import NeverStop
from migronaut.simulation.actor import Actor
from migronaut.simulation.actors import leniently
from migronaut.simulation.perils import Peril
from migronaut.simulation.process import Process
from migronaut.simulation.proxy import SimulatedClock
from migronaut.simulation.scenario import CHAIN, FIRST
from migronaut.simulation.world import World

_OPERATOR = Request(by="operator", reason="simulation")
_LOOKS = 4.0
"""Seconds between two looks of an operator who waits: with the engine's fifth of a second nothing else would happen."""


def operator(world: World, left: int) -> Actor:
    """Pauses, resumes, cancels, retries, unlocks, turns round; starts again where it was when its shell dies."""
    process = Process(world, "operator")
    random = Random(f"operator {world.scenario.seed} {left}")
    orders = [left]
    desk = _Desk(world, process, random)

    def body() -> None:
        while orders[0] and not world.calm:
            orders[0] -= 1
            world.scheduler.rest(random.choice((0.0, 0.3, 3.0, 20.0, 60.0)))
            leniently(desk.order)

    process.actor = Actor(process.name, body, respawn=lambda: operator(world, orders[0]), eager=True)
    return process.actor


class _Desk:
    """What one operator does."""

    def __init__(self, world: World, process: Process, random: Random) -> None:
        self._world = world
        self._process = process
        self._random = random
        self._ports = process.ports
        self._waiting = evolve(process.ports, clock=SimulatedClock(world.scheduler, least=_LOOKS))

    def order(self) -> None:
        """Give one order."""
        chain = [name for name in self._world.scenario.names if name in CHAIN]
        name = FIRST if len(chain) == 1 else self._random.choice(chain)
        state = self._ports.store.load(name)
        if state is None:
            return
        if self._has(Peril.REVERT) and state.status in TERMINAL and self._random.random() < 0.5:
            self._turn_round(state)
        elif state.status in {Status.PAUSED, Status.FAILED, Status.CANCELLED} and self._random.random() < 0.8:
            self._take_up(state)
        else:
            self._random.choice(self._orders(name))()

    def _orders(self, name: str) -> tuple[Callable[[], object], ...]:
        ports = self._ports
        return (
            lambda: self._stop(controls.pause(ports, name, _OPERATOR)),
            lambda: self._stop(controls.pause(ports, name, _OPERATOR)),
            lambda: self._stop(controls.cancel(ports, name, _OPERATOR)),
            lambda: controls.retry(ports, name, _OPERATOR, from_start=False),
            lambda: controls.unlock(ports, name),
            lambda: self._process.producer.enqueue(name),
            lambda: status_of(ports, name),
        )

    def _take_up(self, state: BackgroundState) -> None:
        if state.status is Status.PAUSED:
            controls.resume(self._ports, state.name, _OPERATOR)
        else:
            controls.retry(self._ports, state.name, _OPERATOR, from_start=self._random.random() < 0.4)
        self._process.producer.enqueue(state.name)

    def _stop(self, done: Controlled) -> None:
        """Wait until it is said that nothing is written any more, and keep that in mind."""
        if self._has(Peril.WAIT) and controls.wait_for_lanes(self._waiting, done, NeverStop()).stopped:
            self._world.scheduler.seen["told that it has stopped"] += 1
            self._world.fences.ended(done.state.name)

    def _turn_round(self, state: BackgroundState) -> None:
        back = Direction.REVERT if state.direction is Direction.FORWARD else Direction.FORWARD
        registration = f"turned {next(self._world.numbers)}"
        register(self._ports, state.name, direction=back, registration=registration, request=_OPERATOR)
        self._process.producer.enqueue(state.name)

    def _has(self, peril: Peril) -> bool:
        return peril in self._world.scenario.perils


def deploy(world: World, disks: tuple[str, ...]) -> Actor:
    """Changes the file on one machine after the other, back again, and repins it."""
    process = Process(world, "deploy")
    random = Random(f"deploy {world.scenario.seed}")

    def body() -> None:
        for number in range(world.scenario.deploys):
            world.scheduler.rest(random.choice((0.1, 2.0, 15.0, 60.0)))
            text = (number + 1) % 2 if random.random() < 0.8 else random.choice((0, 1))
            if world.calm:
                return
            for disk in random.sample(disks, random.randint(1, len(disks))):
                world.files.on_disk[disk] = text
                world.scheduler.point("deploy")
            if random.random() < 0.7:
                world.files.on_disk["deploy"] = text
                leniently(lambda: controls.repin(process.ports, FIRST, _OPERATOR))
        world.scheduler.seen["deploy"] += world.scenario.deploys

    process.actor = Actor("deploy", body, mortal=False, eager=True)
    return process.actor
