"""An engine in memory whose file can be changed, and lanes that stand still at a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from engine_kit import ANN, GivenCatalog, at, old, orders, piped
from migronaut.core.lane import SliceResult
from migronaut.core.ports import Owner
from migronaut.core.state import BackgroundState, Direction, Status
from migronaut.engine import Engine
from migronaut.engine.drive import drive
from migronaut.engine.operator.controls import Controlled
from migronaut.engine.operator.registering import register
from migronaut.engine.stopping import StopEvent
from migronaut.spec import Background
from migronaut.testing import MemoryEngine

NAME = "a.py"
COUNT = 30
LANE = Owner(name="lane", host="here", pid=1)
LEASE_TTL = 60.0

Control = Callable[[Any, str, Any], Controlled]


def revert(doc: dict[str, Any]) -> dict[str, Any]:
    doc["address"] = doc.pop("shipping")["address"]
    return doc


REVERT_STAGES = [{"$set": {"address": "$shipping.address"}}, {"$unset": "shipping"}]


class Deployed:
    """An engine in memory whose one file can be changed."""

    def __init__(self, background: Background) -> None:
        memory = MemoryEngine(migrations={})
        self.server = memory.server
        self.catalog = GivenCatalog()
        self.ports = evolve(memory.engine.ports, catalog=self.catalog)
        self.engine = Engine(self.ports)
        self.server.collection("orders").insert(*(old(number) for number in range(COUNT)))
        self.catalog.give(NAME, background)
        self.register(Direction.FORWARD)

    def register(self, direction: Direction) -> None:
        register(self.ports, NAME, direction=direction, registration=direction, request=ANN)

    def slice(self) -> SliceResult:
        return self.engine.run_slice(NAME, owner=LANE, stop=StopEvent())

    def coordinate(self) -> object:
        return self.engine.coordinate(NAME, owner=LANE, stop=StopEvent())

    def run(self) -> Status | None:
        return drive(self.engine, NAME, owner=LANE, stop=StopEvent())

    def state(self) -> BackgroundState:
        state = self.ports.store.load(NAME)
        assert state is not None
        return state

    def documents(self) -> dict[Any, dict[str, Any]]:
        return {doc["_id"]: doc for doc in self.server.collection("orders").find()}

    def migrated(self) -> int:
        return sum("shipping" in document for document in self.documents().values())

    def freeze_at(self, point: str, meanwhile: Callable[[], object]) -> None:
        """At the second arrival there: the lane stands still past its lease, and somebody acts."""

        def frozen() -> None:
            self.server.clock.advance(LEASE_TTL + 1)
            meanwhile()

        self.server.interrupt = at(point, frozen, arrival=2)


def by_function(**settings: Any) -> Deployed:
    return Deployed(orders(revert=revert, **settings))


def by_pipeline(**settings: Any) -> Deployed:
    return Deployed(piped(revert_pipeline=REVERT_STAGES, **settings))
