"""Who runs: actors are threads, and exactly one of them holds the baton.

The engine is plain synchronous code, so an actor must be able to stop in the middle of a call. A thread can; that it
gives up its turn only at a point of this scheduler, and that the scheduler alone says whose turn it is, makes the run
depend on nothing but the decisions.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from traceback import format_exc

from migronaut.core.ports import Stop
from migronaut.memory.clock import FakeClock
from migronaut.simulation.actor import Actor, Crash
from migronaut.simulation.decisions import Decisions
from migronaut.simulation.faults import CALM, Event, Weights, Where
from migronaut.simulation.happenings import Happenings
from migronaut.simulation.timeline import Timeline
from migronaut.simulation.violation import Violation


class Scheduler:
    """Hands out the baton, moves the clock, and makes things go wrong.

    Attributes:
        steps: Points reached so far.
        away_until: Until then the database answers nobody.
        lags_until: Until then no majority acknowledges what is written.
        trace: All points: time, actor, point, what happened there.
        seen: How often each thing happened.
        happenings: What the events at points do.
    """

    def __init__(self, decisions: Decisions, clock: FakeClock, *, max_steps: int) -> None:
        self.decisions = decisions
        self.max_steps = max_steps
        self.weights: Weights = CALM
        self.actors: list[Actor] = []
        self.trace: list[tuple[float, str, str, str]] = []
        self.seen: Counter[str] = Counter()
        self.steps = 0
        self.atomic = False
        self.away_until = 0.0
        self.lags_until = 0.0
        self.violation: Violation | None = None
        self.happenings = Happenings(self)
        self._goal: Callable[[], bool] = lambda: True
        self._current: Actor | None = None
        self._main = threading.Lock()
        self._main.acquire()
        self._turns = count(1)
        self.timeline = Timeline(
            clock,
            silent=lambda: self.decisions.draw(self.weights.at_beats) > 0,
            in_the_name_of=self._in_the_name_of,
            seen=self.seen,
        )
        self._closing = False

    @property
    def current(self) -> Actor:
        """Whose turn it is."""
        if self._current is None:
            raise RuntimeError("no actor runs: points are reached by actors only")
        return self._current

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.timeline.now

    # ------------------------------------------------------------------ the run

    def start(self, actor: Actor, *, delay: float = 0.0) -> Actor:
        """Let an actor take part."""
        actor.baton.acquire()
        actor.wake_at = self.now + delay
        self.actors.append(actor)
        threading.Thread(target=self._live, args=(actor,), daemon=True, name=actor.name).start()
        return actor

    def run(self, goal: Callable[[], bool]) -> None:
        """Let the actors run until ``goal``, which is asked between turns, or until a violation."""
        self._goal = goal
        following = self._next()
        if following is not None:
            self._current = following
            following.baton.release()
            self._main.acquire()

    def close(self) -> None:
        """End all actors where they stand."""
        self._closing = True
        for actor in self.actors:
            if not actor.done:
                actor.crashed = True
                self._current = actor
                actor.baton.release()
                self._main.acquire()

    def violated(self, violation: Violation) -> None:
        """Note what went wrong (the first stands) and end the run at the next change of turns."""
        if self.violation is None and not self._closing:
            self.violation = violation

    # ------------------------------------------------------------------ what actors call

    def point(self, name: str, where: Where = Where.ANYWHERE) -> Event:
        """A place where anything may happen.

        Args:
            where: What kind of a place it is.

        Returns:
            What happened; ``FAIL`` and ``REPEAT`` are up to the call at hand.

        Raises:
            Crash: This process is gone.
        """
        actor = self.current
        if actor.crashed:
            raise Crash
        if self.atomic:
            return Event.NOTHING
        self.steps += 1
        event = Event(self.decisions.draw(self.weights.at[where]))
        self._note(actor, name, event.name.lower() if event else "")
        if self.violation is not None or self.steps >= self.max_steps:
            self.give_up_turn(actor)  # the run is over; also for somebody who would never rest
        if event:
            self.happenings.happen(event, actor)
        return event

    def sleep(self, seconds: float, stop: Stop | None = None) -> None:
        """Let others run for that long, or until ``stop`` is set."""
        actor = self.current
        if actor.crashed:
            raise Crash
        if stop is not None and stop.is_set():
            return
        actor.wake_at, actor.asleep = self.now + max(0.0, seconds), stop
        self.give_up_turn(actor)
        actor.asleep = None

    def rest(self, seconds: float) -> None:
        """Have nothing to do for that long, unless somebody interferes."""
        again = self.now + seconds
        self.wait_until(lambda: again)

    def wait_until(self, ready_when: Callable[[], float | None]) -> None:
        """Let others run until the time that ``ready_when`` gives has come."""
        actor = self.current
        actor.ready_when = ready_when
        self.give_up_turn(actor)
        actor.ready_when = None

    def revive(self, actor: Actor, *, delay: float) -> None:
        """Start the successor of an actor that has ended, with nothing of its memory."""
        if actor.respawn is not None:
            self.start(actor.respawn(), delay=delay)

    # ------------------------------------------------------------------ the baton

    def _in_the_name_of(self, actor: Actor, renew: Callable[[], bool]) -> bool:
        """What the heartbeat thread of a process does, at once."""
        before, self.atomic = self._current, True
        self._current = actor
        try:
            return renew()
        finally:
            self._current, self.atomic = before, False

    def give_up_turn(self, actor: Actor, *, other: bool = False) -> None:
        """Let whoever is chosen go on.

        Args:
            other: It is somebody else, if there is anybody.
        """
        following = self._next(instead_of=actor if other else None)
        if following is not actor:
            self._yield_to(actor, following)

    def call_upon(self, actor: Actor, chosen: Actor) -> None:
        """Let a certain actor go on at once, whatever it waits for."""
        chosen.wake_at, chosen.turn = self.now, next(self._turns)
        self._yield_to(actor, chosen)

    def _yield_to(self, actor: Actor, following: Actor | None) -> None:
        self._pass_on(following)
        actor.baton.acquire()
        if actor.crashed:
            raise Crash

    def _pass_on(self, following: Actor | None) -> None:
        self._current = following
        (self._main if following is None else following.baton).release()

    def _next(self, *, instead_of: Actor | None = None) -> Actor | None:
        """Whose turn is next; time passes when nobody can go on. None = the run is over."""
        while not self._over():
            ready = [actor for actor in self.actors if self._ready(actor)]
            if instead_of is not None and len(ready) > 1:
                ready = [actor for actor in ready if actor is not instead_of]
            if ready:
                ready.sort(key=lambda actor: actor.turn)
                following = ready[self.decisions.choose(len(ready)) if len(ready) > 1 else 0]
                following.turn = next(self._turns)
                return following
            self._skip()
        return None

    def _over(self) -> bool:
        if self.violation is None and self.steps >= self.max_steps:
            self.violated(Violation("termination", f"after {self.steps} steps it has not come to an end"))
        return self.violation is not None or self._goal()

    def _skip(self) -> None:
        times = [time for actor in self.actors if not actor.done if (time := self._time_of(actor)) is not None]
        times += [timer for timer in [self.timeline.next_timer] if timer is not None]
        if times:
            self.timeline.advance_to(min(times))
        else:
            self.violated(Violation("termination", "nobody will ever do anything again, and it has not come to an end"))

    def _ready(self, actor: Actor) -> bool:
        if actor.done or actor.frozen_until > self.now:
            return False
        if actor.asleep is not None and actor.asleep.is_set():
            return True
        time = self._time_of(actor)
        return time is not None and time <= self.now

    @staticmethod
    def _time_of(actor: Actor) -> float | None:
        time = actor.wake_at if actor.ready_when is None else actor.ready_when()
        return None if time is None else max(time, actor.wake_at, actor.frozen_until)

    def _live(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            if not actor.crashed:
                actor.body()
        except Crash:
            pass
        except BaseException as error:  # whatever it is, an actor has no business raising it
            self.violated(
                Violation("raised", f"{actor.name} raised {type(error).__name__}: {error}", cause=format_exc())
            )
        actor.done = True
        if not self._closing:
            self.actors.remove(actor)
        self._pass_on(None if self._closing else self._next())

    def _note(self, actor: Actor, point: str, what: str) -> None:
        self.trace.append((self.now, actor.name, point, what))
