"""The calm after: whoever runs the installation puts it in order, and then nothing may be left undone."""

from __future__ import annotations

from random import Random

from attrs import asdict

from migronaut.core.state import TERMINAL, BackgroundState, Direction, Status
from migronaut.engine.operator import controls
from migronaut.engine.states import Request
from migronaut.errors import BackgroundConflictError
from migronaut.simulation.actor import Actor
from migronaut.simulation.indexes import Built
from migronaut.simulation.process import Process
from migronaut.simulation.scenario import CHAIN, FIRST
from migronaut.simulation.violation import Violation
from migronaut.simulation.world import World

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
        self._retries = dict.fromkeys(world.scenario.names, 1 if world.scenario.corrected else 0)

    def _body(self) -> None:
        while any(actor.name == "deploy" for actor in self.world.scheduler.actors):
            self.world.scheduler.sleep(5.0)
        self._end_deploy()
        if self.world.scenario.corrected:
            self.world.files.troubles.clear()
        while self._is_something_done() or not self._is_quiet():
            self.world.scheduler.sleep(20.0)
        self.over = True

    def _is_quiet(self) -> bool:
        other = self.world.neighbour
        return self.world.settled() and (other is None or other.settled())

    def _end_deploy(self) -> None:
        """One file everywhere: the registered one, or it is repinned."""
        on_disk = self.world.files.on_disk
        text = self._random.choice((0, 1)) if self.world.scenario.deploys else 0
        for disk in {*on_disk, *(f"worker-{number}" for number in range(3)), "runner-0", "runner-1", "closing"}:
            on_disk[disk] = text
        try:
            controls.repin(self.process.ports, FIRST, _REQUEST)
        except BackgroundConflictError:
            # It is completed, and this file matches other documents: then it runs again.
            controls.retry(self.process.ports, FIRST, _REQUEST, from_start=False, repin=True)

    def _is_something_done(self) -> bool:
        try:
            return self._put_in_order()
        except BackgroundConflictError:  # the drift poll was faster
            return True

    def _put_in_order(self) -> bool:
        """True when something was done that others have to follow."""
        ports = self.process.ports
        for state in self.world.states():
            if state.status is Status.PAUSED:
                controls.resume(ports, state.name, _REQUEST)
                return True
        for state in self.world.states():
            if self._retries[state.name] and self.world.settled(state.name) and _is_to_be_retried(state):
                self._retries[state.name] -= 1
                controls.retry(ports, state.name, _REQUEST, from_start=self._random.random() < 0.3)
                return True
        for state in self.world.states():
            if state.status is Status.BLOCKED and self._waits_in_vain(state):
                controls.cancel(ports, state.name, _REQUEST)
                return True
        return self.world.settled() and any(drift.reopened for drift in self.process.engine.verify().drift)

    def _waits_in_vain(self, state: BackgroundState) -> bool:
        """One that it waits for has ended, and will not complete forward any more."""
        states = self.world.server.states
        return any(
            (states[name].status in _BROKEN and not self._retries[name]) or _is_back(states[name])
            for name in state.waits_for
        )


def _is_to_be_retried(state: BackgroundState) -> bool:
    return state.status in _BROKEN or (state.status is Status.COMPLETED and state.left_out > 0)


def _is_back(state: BackgroundState) -> bool:
    return state.direction is Direction.REVERT and state.status in TERMINAL


def look_at_the_end(world: World) -> None:
    """Nothing may be left over, and nothing undone."""
    if world.server.tickets:
        _wrong(world, "left over", "a ticket is left")
    for state in world.states():
        if world.scenario.corrected and state.name in CHAIN and (state.status in _BROKEN or state.left_out):
            _wrong(
                world,
                "termination",
                f"what was corrected and tried again is {state.status}, {state.left_out} left out",
            )
        if state.status is Status.COMPLETED:
            _look_at_completed(world, state)
        elif state.status is Status.FAILED:
            _look_at_failed(world, state)
        elif state.status is not Status.CANCELLED:
            _wrong(world, "termination", f"a migration is {state.status} in the end")
        for counter, number in asdict(world.invariants.counting.check_end(state)).items():
            world.scheduler.seen[f"counted {counter}"] += number


def _look_at_completed(world: World, state: BackgroundState) -> None:
    # The drift poll looks only where it may, and only at what was migrated forward.
    looked_after = state.direction is Direction.FORWARD and world.index.state is Built.READY
    left = world.invariants.left(state) if looked_after else world.invariants.left_behind(state)
    if left:
        _wrong(world, "completed", "a completed migration has documents left in the end")
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
    if world.scenario.stubborn and not world.scenario.troubles and "always" not in (state.last_error or ""):
        _wrong(world, "failed", f"a migration failed by a call that always fails, and says: {state.last_error}")


def _wrong(world: World, invariant: str, text: str) -> None:
    world.scheduler.violated(Violation(invariant, text))
