"""The calm after: whoever runs the installation puts it in order, and then nothing may be left undone."""

from __future__ import annotations

from random import Random

from attrs import asdict

from migronaut.core.state import BackgroundState, Status
from migronaut.engine.operator import controls
from migronaut.engine.states import Request
from migronaut.errors import BackgroundConflictError
from migronaut.simulation.actor import Actor
from migronaut.simulation.scenario import FIRST, SECOND
from migronaut.simulation.violation import Violation
from migronaut.simulation.world import Process, World

_BROKEN = frozenset({Status.FAILED, Status.CANCELLED})
_REQUEST = Request(by="closing")


class Closing:
    """Ends the deploy, resumes what is paused, tries again what failed where it was corrected, and waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.over = False
        self.process = Process(world, "closing")
        self.actor = Actor("closing", self._body, mortal=False)
        self.process.actor = self.actor
        self._random = Random(f"closing {world.scenario.seed}")
        self._retries = 1 if world.scenario.corrected else 0

    def _body(self) -> None:
        while any(actor.name == "deploy" for actor in self.world.scheduler.actors):
            self.world.scheduler.sleep(5.0)
        self._end_deploy()
        if self.world.scenario.corrected:
            self.world.troubles.clear()
        while self._is_something_done() or not self.world.settled():
            self.world.scheduler.sleep(20.0)
        self.over = True

    def _end_deploy(self) -> None:
        """One file everywhere: the registered one, or it is repinned."""
        world = self.world
        text = self._random.choice((0, 1)) if world.scenario.deploys else 0
        for disk in {*world.disks, *(f"worker-{number}" for number in range(3)), "runner-0", "runner-1", "closing"}:
            world.disks[disk] = text
        controls.repin(self.process.ports, FIRST, _REQUEST)

    def _is_something_done(self) -> bool:
        try:
            return self._put_in_order()
        except BackgroundConflictError:  # the drift poll was faster
            return True

    def _put_in_order(self) -> bool:
        """True when something was done that others have to follow."""
        ports = self.process.ports
        first, second = self.world.server.states[FIRST], self.world.server.states.get(SECOND)
        for state in (first, second):
            if state is not None and state.status is Status.PAUSED:
                controls.resume(ports, state.name, _REQUEST)
                return True
        if self._retries and self.world.settled(FIRST) and _is_to_be_retried(first):
            controls.retry(ports, FIRST, _REQUEST, from_start=self._random.random() < 0.3)
            self._retries -= 1
            return True
        if second is not None and second.status is Status.BLOCKED and first.status in _BROKEN and not self._retries:
            controls.cancel(ports, SECOND, _REQUEST)
            return True
        return self.world.settled() and any(drift.reopened for drift in self.process.engine.verify().drift)


def _is_to_be_retried(state: BackgroundState) -> bool:
    return state.status in _BROKEN or (state.status is Status.COMPLETED and state.left_out > 0)


def look_at_the_end(world: World) -> None:
    """Nothing may be left over, and nothing undone."""
    server = world.server
    if server.tickets:
        _wrong(world, "left over", "a ticket is left")
    first = server.states[FIRST]
    if world.scenario.corrected and (first.status is not Status.COMPLETED or first.left_out):
        _wrong(world, "termination", f"what was corrected and tried again is {first.status}, {first.left_out} left out")
    for state in world.states():
        if state.status is Status.COMPLETED:
            _look_at_completed(world, state)
        elif state.status is Status.FAILED:
            _look_at_failed(world, state)
        elif state.status is not Status.CANCELLED:
            _wrong(world, "termination", f"a migration is {state.status} in the end")
        for counter, number in asdict(world.invariants.check_end(state)).items():
            world.scheduler.seen[f"counted {counter}"] += number


def _look_at_completed(world: World, state: BackgroundState) -> None:
    if world.invariants.left(state):
        _wrong(world, "completed", "a completed migration has documents of the old shape in the end")
    if any(each.background == state.name for each in world.server.partitions.values()):
        _wrong(world, "left over", "a partition of a completed migration is left")


def _look_at_failed(world: World, state: BackgroundState) -> None:
    """Only documents that fail, slices that fail and an application without end may fail a migration."""
    reasons = (
        world.scenario.troubles,
        world.invariants.failed_slices,
        state.pass_number >= state.spec.max_passes,
    )
    if not any(reasons):
        _wrong(world, "failed", "a migration failed though no document and no slice did")


def _wrong(world: World, invariant: str, text: str) -> None:
    world.scheduler.violated(Violation(invariant, text))
