"""Jobs that are not for whoever takes them from the broker: of another database, or of nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from attrs import evolve, frozen

from migronaut.core.jobs import parse_payload
from migronaut.core.tickets import Role, TicketStatus, ticket_id
from migronaut.errors import QueueJobInvalidError
from migronaut.simulation.actor import Actor
from migronaut.simulation.perils import NONE
from migronaut.simulation.process import Process
from migronaut.simulation.scenario import FIRST, Scenario, scenario_of
from migronaut.simulation.violation import Violation
from migronaut.simulation.world import World

_FAR_AWAY = 1_000_000


def do_job(process: Process, payload: object, job: Any) -> object:
    """Let a worker do a job, and see what becomes of one that is not for it."""
    world = process.world
    if json.dumps(payload) in world.forged:
        _do_forged(process, payload, job)
        return None
    process.queue.tried.clear()
    result = process.processor.run(payload, job)
    other = world.neighbour
    if other is not None and is_waited_for(other, payload):
        world.scheduler.seen["job of another database"] += 1
        if payload not in [each.body() for each in process.queue.tried]:
            world.scheduler.violated(
                Violation("foreign", "a worker of another database has taken a job and not given it back")
            )
    return result


def is_waited_for(world: World, payload: object) -> bool:
    """Whether a ticket of this database waits for just this hint."""
    if not isinstance(payload, Mapping) or "run" not in payload:
        return False
    lane = payload.get("lane")
    role = Role.COORDINATOR if lane is None else Role.LANE
    ticket = world.server.tickets.get(ticket_id(payload["migration"], role, lane=lane))
    if ticket is None or ticket.status is not TicketStatus.WAITING:
        return False
    return (ticket.run, ticket.seq) == (payload["run"], payload["seq"])


def neighbour_of(world: World, make: Callable[[Scenario], World]) -> World:
    """Another installation, without troubles of its own, with a migration of the same name."""
    theirs = evolve(
        scenario_of(_FAR_AWAY + world.scenario.seed),
        weights=world.scenario.weights,
        names=(FIRST,),
        perils=NONE,
        troubles={},
        max_passes=10,
        writes=0,
        orders=0,
        deploys=0,
    )
    other = make(theirs)
    world.neighbour, other.neighbour = other, world
    return other


# ---------------------------------------------------------------------- forgeries


@frozen
class Forgery:
    """A hint that nobody of ours has made."""

    id: str
    payload: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """What travels."""
        return dict(self.payload)


def forger(world: World) -> Actor:
    """Sends jobs of all kinds to the queue of an installation."""
    random = Random(f"forger {world.scenario.seed}")

    def body() -> None:
        for number in range(12):
            world.scheduler.rest(random.choice((0.5, 5.0, 40.0)))
            if world.calm:
                return
            forgery = Forgery(f"migronaut-forged-{number}", random.choice(_forgeries(world, random)))
            if not _is_valid(forgery.payload):
                world.forged.append(json.dumps(forgery.body()))
            world.scheduler.seen["forged job"] += 1
            world.queue.port.enqueue([forgery])  # type: ignore[list-item]
            world.scheduler.point("forger")

    return Actor("forger", body, mortal=False, eager=True)


def _forgeries(world: World, random: Random) -> list[dict[str, Any]]:
    real = [ticket.hint.body() for ticket in world.server.tickets.values()]
    like: Any = random.choice(real) if real else {"kind": "background", "migration": FIRST, "v": 1}
    like = {"run": "0" * 32, "seq": 0} | like
    seq = int(like["seq"])
    lane = like | {"kind": "background-lane", "lane": random.randrange(3)}
    return [
        like | {"run": "0" * 32},
        like | {"seq": seq + 1},
        like | {"seq": seq - 1},
        like | {"seq": True},
        like | {"seq": str(seq)},
        like | {"migration": "../other.py"},
        like | {"v": 2},
        like | {"kind": "os.system"},
        like | {"filter": {}},
        lane,
        lane | {"lane": 64},
        {"function": "os.system", "args": ["true"]},
        {"kind": "background-verify", "v": 1},
    ]


def _is_valid(payload: Mapping[str, Any]) -> bool:
    try:
        parse_payload(payload)
    except QueueJobInvalidError:
        return False
    return True


def _do_forged(process: Process, payload: object, job: Any) -> None:
    """It is refused before anything is asked of anybody."""
    scheduler = process.world.scheduler
    before = scheduler.steps
    try:
        process.processor.run(payload, job)
    except QueueJobInvalidError:
        scheduler.seen["forged job refused"] += 1
        if scheduler.steps == before:
            return
    scheduler.violated(Violation("forged", "a job that is none of ours was run"))
