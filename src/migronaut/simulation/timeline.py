"""Time, and what falls into it: heartbeats, and what was put off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from attrs import define

from migronaut.core.ports import PortError
from migronaut.memory.clock import FakeClock
from migronaut.simulation.actor import Actor


@define(eq=False)
class Beat:
    """A right that a heartbeat keeps: when it is renewed next, and what tells its owner that it is lost."""

    actor: Actor
    renew: Callable[[], bool]
    ttl: float
    lose: Callable[[str], None]
    due: float
    last: float


class Timeline:
    """The clock that all share.

    Args:
        silent: Asked for each beat; it does not get through when true.
        in_the_name_of: Runs a renewal in the process of an actor, without points.
        seen: Where lost and failed beats are counted.
    """

    def __init__(
        self,
        clock: FakeClock,
        *,
        silent: Callable[[], bool],
        in_the_name_of: Callable[[Actor, Callable[[], bool]], bool],
        seen: Counter[str],
    ) -> None:
        self._clock = clock
        self._silent = silent
        self._in_the_name_of = in_the_name_of
        self._seen = seen
        self._beats: list[Beat] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._orders = count()

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._clock.monotonic()

    @property
    def next_timer(self) -> float | None:
        """When the next of what was put off is due."""
        return self._timers[0][0] if self._timers else None

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something done in ``seconds`` from now, by nobody's process."""
        heappush(self._timers, (self.now + seconds, next(self._orders), action))

    def keep(self, actor: Actor, renew: Callable[[], bool], *, ttl: float, lose: Callable[[str], None]) -> Beat:
        """Begin to renew a right every ttl/2 seconds."""
        beat = Beat(actor=actor, renew=renew, ttl=ttl, lose=lose, due=self.now + ttl / 2, last=self.now)
        self._beats.append(beat)
        return beat

    def forget(self, beat: Beat) -> None:
        """End a heartbeat; it may have ended already."""
        if beat in self._beats:
            self._beats.remove(beat)

    def forget_all_of(self, actor: Actor) -> None:
        """End the heartbeats of a process that is gone."""
        self._beats = [beat for beat in self._beats if beat.actor is not actor]

    def advance_to(self, end: float) -> None:
        """Let time pass, with what falls into it: heartbeats, and what was put off."""
        while (due := self._due()) is not None and due <= end:
            self._forward(due)
            self._fall_due(due)
        self._forward(end)

    def _due(self) -> float | None:
        times = [beat.due for beat in self._beating()] + [time for time, _, _ in self._timers[:1]]
        return min(times, default=None)

    def _fall_due(self, due: float) -> None:
        beat = next((each for each in self._beating() if each.due <= due), None)
        if beat is not None:
            self._pulse(beat)
        else:
            heappop(self._timers)[2]()

    def _forward(self, to: float) -> None:
        if to > self.now:
            self._clock.advance(to - self.now)

    def _beating(self) -> list[Beat]:
        return [beat for beat in self._beats if beat.actor.frozen_until <= self.now]

    def _pulse(self, beat: Beat) -> None:
        """One beat, as the engine's own heartbeat thread does it."""
        alive = None if self._silent() else self._renewed(beat)
        if alive is None:
            self._seen["failed beat"] += 1
            beat.due = self.now + min(1.0, beat.ttl / 20)
            if self.now - beat.last >= beat.ttl - min(5.0, beat.ttl / 4):
                self._lost(beat, "no renewal got through")
            return
        if alive:
            beat.last = self.now
            beat.due = self.now + beat.ttl / 2
        else:
            self._lost(beat, "taken away")

    def _renewed(self, beat: Beat) -> bool | None:
        """Whether the right is still there; None when nobody answered."""
        try:
            return self._in_the_name_of(beat.actor, beat.renew)
        except PortError:
            return None

    def _lost(self, beat: Beat, why: str) -> None:
        self._seen["lost by heartbeat"] += 1
        self.forget(beat)
        beat.lose(why)
