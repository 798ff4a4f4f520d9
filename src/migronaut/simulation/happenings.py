"""What the events at a point do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from migronaut.simulation.actor import Actor, Crash
from migronaut.simulation.faults import ADVANCES, FREEZES, LAGS, OUTAGES, RESTARTS, Event

if TYPE_CHECKING:
    from migronaut.simulation.scheduler import Scheduler


class Happenings:
    """Makes things go wrong for the actor whose turn it is, or for all.

    Attributes:
        on_restart: The broker loses its jobs; None = it does not.
        on_failover: Another member becomes the primary; None = it does not.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.on_restart: Callable[[], None] | None = None
        self.on_failover: Callable[[], None] | None = None
        self._scheduler = scheduler

    def happen(self, event: Event, actor: Actor) -> None:
        """Let an event happen at the point that an actor has reached."""
        if event is Event.INTERFERE:
            self._interfere(actor)
        elif event is Event.WAKE:
            self._wake(actor)
        elif event is Event.SWITCH:
            self._scheduler.give_up_turn(actor, other=True)
        elif event is Event.CRASH and actor.mortal:
            self._crash(actor)
        elif event is Event.FREEZE and actor.mortal:
            self._freeze(actor)
        elif event is Event.STOP and actor.on_stop is not None:
            self._see("stop")
            actor.on_stop()
        else:
            self._happen_to_all(event)

    def _happen_to_all(self, event: Event) -> None:
        scheduler = self._scheduler
        if event is Event.ADVANCE:
            self._see("advance")
            scheduler.timeline.advance_to(scheduler.now + self._one_of(ADVANCES))
        elif event is Event.OUTAGE:
            self._see("outage")
            scheduler.away_until = scheduler.now + self._one_of(OUTAGES)
        elif event is Event.RESTART and self.on_restart is not None:
            self._see("queue restart")
            self.on_restart()
        elif event is Event.LAG:
            self._see("lag")
            scheduler.lags_until = scheduler.now + self._one_of(LAGS)
        elif event is Event.FAILOVER and self.on_failover is not None:
            self._see("failover")
            self.on_failover()

    def _interfere(self, actor: Actor) -> None:
        """One of the eager ones that rest acts just now."""
        self._call_upon_one(
            actor, "interference", lambda each: each.eager and each.ready_when is not None and not each.done
        )

    def _wake(self, actor: Actor) -> None:
        """One of those that stand still goes on just now."""
        now = self._scheduler.now
        self._call_upon_one(actor, "woken", lambda each: each.frozen_until > now and not each.done)

    def _call_upon_one(self, actor: Actor, what: str, suits: Callable[[Actor], bool]) -> None:
        scheduler = self._scheduler
        suited = [each for each in scheduler.actors if suits(each)]
        if suited:
            self._see(what)
            chosen = suited[scheduler.decisions.choose(len(suited))]
            chosen.frozen_until = min(chosen.frozen_until, scheduler.now)
            scheduler.call_upon(actor, chosen)

    def _freeze(self, actor: Actor) -> None:
        self._see("freeze")
        actor.frozen_until = self._scheduler.now + self._one_of(FREEZES)
        self._scheduler.give_up_turn(actor)

    def _crash(self, actor: Actor) -> None:
        scheduler = self._scheduler
        self._see("crash")
        actor.crashed = True
        scheduler.timeline.forget_all_of(actor)
        delay = self._one_of(RESTARTS)
        if actor.on_crash is not None:
            actor.on_crash()
        scheduler.revive(actor, delay=delay)
        raise Crash

    def _one_of(self, choices: tuple[float, ...]) -> float:
        return choices[self._scheduler.decisions.choose(len(choices))]

    def _see(self, what: str) -> None:
        self._scheduler.seen[what] += 1
