"""The application, and its releases of several ages: what it writes into the collection that is being migrated."""

from __future__ import annotations

from random import Random
from typing import Any

from migronaut.core.state import Guard
from migronaut.memory.server.collection import MemoryCollection
from migronaut.simulation.actor import Actor
from migronaut.simulation.actors import leniently
from migronaut.simulation.ledger import APPLICATION
from migronaut.simulation.scenario import COLLECTIONS, FIRST
from migronaut.simulation.shapes import FIELDS, reshape, shape_of
from migronaut.simulation.world import World


def application(world: World) -> Actor:
    """Writes documents of all shapes, one at a time."""
    random, concerns = Random(f"application {world.scenario.seed}"), Random(f"concerns {world.scenario.seed}")
    durability = world.server.durability

    def write() -> None:
        _write(world, random)
        lags = world.scheduler.lags_until > world.scheduler.now
        if concerns.random() >= world.scenario.careless and not lags:
            durability.acknowledge(durability.mark())

    def body() -> None:
        for _ in range(world.scenario.writes):
            world.scheduler.rest(random.choice((0.0, 0.2, 2.0, 10.0, 30.0)))
            if world.calm:
                return
            leniently(write)
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
    old = [document for document in stored if shape_of(document) == 0]
    document = random.choice(old if old and random.random() < 0.6 else stored)
    if deed == "delete":
        collection.delete(document["_id"])
    else:
        _change(world, random, collection, document, shape=deed == "shape")


def _change(
    world: World, random: Random, collection: MemoryCollection, document: dict[str, Any], *, shape: bool
) -> None:
    values = {name: value for name, value in document.items() if name != "_id"}
    if shape:
        values = _reshaped(world, random, values)
    else:
        values["hits"] += 1
    if world.scenario.guard is not Guard.VERSION:
        # With that guard a write to a field that the migration changes too may be lost, as is documented.
        values[FIELDS[shape_of(values)]] = random.randrange(50)
    if world.scenario.guard is Guard.REVISION or (world.scenario.revisions and random.random() < 0.5):
        values["rev"] = values.get("rev", 0) + 1
    collection.replace(document["_id"], values)


def _fresh(world: World, random: Random, *, old: bool) -> dict[str, Any]:
    scenario = world.scenario
    document: dict[str, Any] = {"_id": 100 + next(world.numbers), "kind": random.choice("xy"), "hits": 0, "done": 0}
    shape = 0 if old else scenario.shapes - 1
    document[FIELDS[shape]] = 1 + shape
    if scenario.versioned:
        document["schema_version"] = shape + 1
    if scenario.revisions:
        document["rev"] = 0
    return document


def _reshaped(world: World, random: Random, values: dict[str, Any]) -> dict[str, Any]:
    """An old release writes an older shape again, or a new one a newer."""
    shape = shape_of(values)
    others = [other for other in range(world.scenario.shapes) if other != shape]
    target = others[0] if len(others) == 1 else random.choice(others)
    reshape(values, shape, target)
    if world.scenario.versioned:
        values["schema_version"] = target + 1
    return values
