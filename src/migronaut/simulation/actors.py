"""Who works: workers of a queue, runners without one, and the beat."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.core.ports import PortError, UnavailableError
from migronaut.engine.drive import drive, drive_all
from migronaut.errors import MigronautError
from migronaut.simulation.actor import Actor
from migronaut.simulation.faults import RESTARTS
from migronaut.simulation.process import Process
from migronaut.simulation.scenario import CHAIN, FIRST
from migronaut.simulation.strangers import do_job
from migronaut.simulation.world import World


def worker(world: World, disk: str) -> Actor:
    """A worker of the queue: one job after the other, until it is stopped or crashes."""
    process = Process(world, disk)
    scheduler, queue = world.scheduler, world.queue
    job: list[Any] = []

    def work(payload: object, job_: Any) -> object:
        """Do one job, and know which it is in case of a crash."""
        job[:] = [payload]
        result = do_job(process, payload, job_)
        job.clear()
        return result

    def body() -> None:
        """What the actor does until the end."""
        while not process.queue.stopping.is_set():
            if not queue.run_one(work):
                scheduler.wait_until(queue.next_due)
        scheduler.revive(actor, delay=RESTARTS[scheduler.decisions.choose(len(RESTARTS))])

    def crashed() -> None:
        """Let the job at hand come again, perhaps."""
        if job and scheduler.decisions.draw(scheduler.weights.redelivered):
            scheduler.seen["job redelivered"] += 1
            scheduler.timeline.at(5.0, lambda: process.queue.redeliver(job[0]))

    actor = process.actor = Actor(
        process.name,
        body,
        respawn=lambda: worker(world, disk),
        on_crash=crashed,
        on_stop=lambda: process.queue.stopping.set("the worker shuts down"),
    )
    return actor


def runner(world: World, disk: str) -> Actor:
    """Works the migrations of a collection without a queue, as ``migronaut background run`` does."""
    process = Process(world, disk)
    chain = [name for name in world.scenario.names if name in CHAIN]

    def run() -> None:
        try:
            if len(chain) == 1:
                drive(process.engine, FIRST, owner=process.owner, stop=process.queue.stopping)
            else:
                drive_all(process.engine, chain, owner=process.owner, stop=process.queue.stopping)
        except (UnavailableError, MigronautError):
            return  # any other error of a port is one that the engine should have dealt with

    def body() -> None:
        """What the actor does until the end."""
        while True:
            run()
            world.scheduler.rest(40.0)

    process.actor = Actor(process.name, body, respawn=lambda: runner(world, disk))
    return process.actor


def bystander(world: World) -> Actor:
    """Looks after the migrations of a collection at any time, but works no lane, as a runner does without a slot."""
    process = Process(world, "worker-0")
    random = Random(f"bystander {world.scenario.seed}")

    def look() -> None:
        name = random.choice(world.scenario.names)
        process.engine.coordinate(name, owner=process.owner, stop=process.queue.stopping)

    def body() -> None:
        """What the actor does until the end."""
        while not world.calm:
            world.scheduler.rest(random.choice((1.0, 5.0, 30.0)))
            leniently(look)

    process.actor = Actor("bystander", body, mortal=False, eager=True)
    return process.actor


def beat(world: World, name: str = "beat") -> Actor:
    """The beat of the workers: by a job, or from a thread of its own."""
    process = Process(world, "worker-0")

    def body() -> None:
        """What the actor does until the end."""
        number = 0
        while True:
            number += 1
            world.scheduler.sleep(13.0)
            if world.scenario.beat_by_queue:
                hint = Hint(id=f"migronaut-beat-{number}", payload=VerifyJob())
                leniently(lambda hint=hint: process.queue.enqueue([hint]))  # type: ignore[misc]
            else:
                leniently(process.processor.beat)

    process.actor = Actor(name, body, mortal=False)
    return process.actor


def leniently(act: Callable[[], object]) -> None:
    """Somebody who shrugs at an error, and does something else."""
    try:
        act()
    except (PortError, MigronautError, ConnectionError):
        return
