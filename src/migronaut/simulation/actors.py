"""Who takes part: workers, runners, the beat, an operator, an application, and a deploy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.core.ports import PortError
from migronaut.core.state import Guard, Status
from migronaut.engine.drive import drive
from migronaut.engine.operator import controls
from migronaut.engine.operator.status import status_of
from migronaut.engine.states import Request
from migronaut.errors import MigronautError
from migronaut.simulation.actor import Actor
from migronaut.simulation.faults import RESTARTS
from migronaut.simulation.ledger import APPLICATION, is_old
from migronaut.simulation.scenario import FIRST
from migronaut.simulation.world import COLLECTIONS, Process, World

_OPERATOR = Request(by="operator", reason="simulation")


def worker(world: World, disk: str) -> Actor:
    """A worker of the queue: one job after the other, until it is stopped or crashes."""
    process = Process(world, disk)
    scheduler, queue = world.scheduler, world.queue
    job: list[Any] = []

    def work(payload: object, job_: Any) -> object:
        job[:] = [payload]
        result = process.processor.run(payload, job_)
        job.clear()
        return result

    def body() -> None:
        while not process.queue.stopping.is_set():
            if not queue.run_one(work):
                scheduler.wait_until(queue.next_due)
        scheduler.revive(actor, delay=RESTARTS[scheduler.decisions.choose(len(RESTARTS))])

    def crashed() -> None:
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
    """Works the migration without a queue, as ``migronaut background run`` does."""
    process = Process(world, disk)

    def body() -> None:
        while True:
            _leniently(lambda: drive(process.engine, FIRST, owner=process.owner, stop=process.queue.stopping))
            world.scheduler.rest(40.0)

    process.actor = Actor(process.name, body, respawn=lambda: runner(world, disk))
    return process.actor


def beat(world: World) -> Actor:
    """The beat of the workers: by a job, or from a thread of its own."""
    process = Process(world, "worker-0")

    def body() -> None:
        number = 0
        while True:
            number += 1
            world.scheduler.sleep(13.0)
            if world.scenario.beat_by_queue:
                hint = Hint(id=f"migronaut-beat-{number}", payload=VerifyJob())
                _leniently(lambda hint=hint: process.queue.enqueue([hint]))  # type: ignore[misc]
            else:
                _leniently(process.processor.beat)

    process.actor = Actor("beat", body, mortal=False)
    return process.actor


def operator(world: World, left: int) -> Actor:
    """Pauses, resumes, cancels, retries, unlocks; starts again where it was when its shell dies."""
    process = Process(world, "operator")
    random = Random(f"operator {world.scenario.seed} {left}")
    orders = [left]

    def body() -> None:
        while orders[0] and not world.calm:
            orders[0] -= 1
            world.scheduler.rest(random.choice((0.0, 0.3, 3.0, 20.0, 60.0)))
            _leniently(lambda: _order(process, random))

    process.actor = Actor(process.name, body, respawn=lambda: operator(world, orders[0]), eager=True)
    return process.actor


def _order(process: Process, random: Random) -> None:
    ports = process.ports
    state = ports.store.load(FIRST)
    if state is None:
        return
    if state.status in {Status.PAUSED, Status.FAILED, Status.CANCELLED} and random.random() < 0.8:
        if state.status is Status.PAUSED:
            controls.resume(ports, FIRST, _OPERATOR)
        else:
            controls.retry(ports, FIRST, _OPERATOR, from_start=random.random() < 0.4)
        process.producer.enqueue(FIRST)
        return
    order: Callable[[], object] = random.choice(
        (
            lambda: controls.pause(ports, FIRST, _OPERATOR),
            lambda: controls.pause(ports, FIRST, _OPERATOR),
            lambda: controls.cancel(ports, FIRST, _OPERATOR),
            lambda: controls.retry(ports, FIRST, _OPERATOR, from_start=False),
            lambda: controls.unlock(ports, FIRST),
            lambda: process.producer.enqueue(FIRST),
            lambda: status_of(ports, FIRST),
        )
    )
    order()


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
                world.disks[disk] = text
                world.scheduler.point("deploy")
            if random.random() < 0.7:
                world.disks["deploy"] = text
                _leniently(lambda: controls.repin(process.ports, FIRST, _OPERATOR))
        world.scheduler.seen["deploy"] += world.scenario.deploys

    process.actor = Actor("deploy", body, mortal=False, eager=True)
    return process.actor


def application(world: World) -> Actor:
    """Writes documents of both shapes, one at a time."""
    random = Random(f"application {world.scenario.seed}")

    def body() -> None:
        for _ in range(world.scenario.writes):
            world.scheduler.rest(random.choice((0.0, 0.2, 2.0, 10.0, 30.0)))
            if world.calm:
                return
            _leniently(lambda: _write(world, random))
            world.scheduler.point("application")

    return Actor(APPLICATION, body, mortal=False, eager=True)


def _write(world: World, random: Random) -> None:
    collection = world.server.collection(COLLECTIONS[FIRST])
    stored = collection.find()
    deed = random.choice(("update", "update", "update", "update", "insert old", "insert new", "delete", "shape"))
    world.scheduler.seen[f"application: {deed}"] += 1
    if deed.startswith("insert") or not stored:
        collection.insert(_fresh(world, random, old=deed == "insert old"))
        return
    old = [document for document in stored if is_old(document)]
    document = random.choice(old if old and random.random() < 0.6 else stored)
    if deed == "delete":
        collection.delete(document["_id"])
        return
    values = {name: value for name, value in document.items() if name != "_id"}
    if deed == "shape":
        values = _reshaped(world, values)
    else:
        values["hits"] += 1
    if world.scenario.guard is not Guard.VERSION:
        # With that guard a write to a field that the migration changes too may be lost, as is documented.
        values["old" if "old" in values else "new"] = random.randrange(50)
    if world.scenario.guard is Guard.REVISION or (world.scenario.revisions and random.random() < 0.5):
        values["rev"] = values.get("rev", 0) + 1
    collection.replace(document["_id"], values)


def _fresh(world: World, random: Random, *, old: bool) -> dict[str, Any]:
    scenario = world.scenario
    document: dict[str, Any] = {"_id": 100 + next(world.numbers), "kind": random.choice("xy"), "hits": 0, "done": 0}
    document |= {"old": 1} if old else {"new": 2}
    if scenario.versioned:
        document["schema_version"] = 1 if old else 2
    if scenario.revisions:
        document["rev"] = 0
    return document


def _reshaped(world: World, values: dict[str, Any]) -> dict[str, Any]:
    """An old release writes the old shape again, or a new one the new shape."""
    old = not is_old(values)
    if old:
        values["old"] = values.pop("new") - 100
    else:
        values["new"] = values.pop("old") + 100
    if world.scenario.versioned:
        values["schema_version"] = 1 if old else 2
    return values


def _leniently(act: Callable[[], object]) -> None:
    """Somebody who shrugs at an error, and does something else."""
    try:
        act()
    except (PortError, MigronautError, ConnectionError):
        return
