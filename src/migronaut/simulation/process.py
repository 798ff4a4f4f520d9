"""One process of an installation: its memory is what a crash takes away."""

from __future__ import annotations

from typing import Any

from migronaut.core.ports import Owner
from migronaut.engine import Engine
from migronaut.queueing import BackgroundProcessor, Producer, QueueSettings
from migronaut.simulation.actor import Actor
from migronaut.simulation.queue import FaultyQueue
from migronaut.simulation.world import World


class Process:
    """A worker, a runner, an operator's shell: the engine and the queue as it has them."""

    def __init__(self, world: World, disk: str) -> None:
        self.world = world
        self.disk = disk
        self.name = f"{disk}-{next(world.numbers)}"
        self.owner = Owner(name=self.name, host="simulation", pid=0)
        self.actor: Actor | None = None
        self.queue = FaultyQueue(world.queue, world.scheduler)
        self.ports = world.ports(disk, self._actor)
        self.engine = Engine(self.ports)
        self.producer = Producer(self.engine, self.queue)
        self.processor: BackgroundProcessor[Any] = BackgroundProcessor(
            self.engine,
            self.queue,
            owner=self.owner,
            settings=QueueSettings(lane_poll=world.scenario.lane_poll, heal_interval=30.0, verify_interval=120.0),
        )

    def _actor(self) -> Actor:
        if self.actor is None:
            raise RuntimeError("a process works only after an actor was started for it")
        return self.actor
