"""What may go wrong, and how often. Each seed has weights of its own: many faults hide each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum, auto
from itertools import accumulate
from random import Random

from attrs import evolve, frozen

from migronaut.simulation.perils import Peril


class Event(IntEnum):
    """What may happen at a point: before a call of a port, in the middle of it, after it."""

    NOTHING = 0
    SWITCH = 1
    FAIL = 2
    CRASH = 3
    FREEZE = 4
    ADVANCE = 5
    STOP = 6
    RESTART = 7
    REPEAT = 8
    OUTAGE = 9
    INTERFERE = 10
    FAILOVER = 11
    WAKE = 12
    LAG = 13


class Where(Enum):
    """What kind of a point it is."""

    ANYWHERE = auto()
    DOCUMENTS = auto()
    """A lane reads or writes documents."""
    DECISIONS = auto()
    """Somebody is about to rest a decision on what he has read."""


class Fate(IntEnum):
    """What may happen to a hint that is sent."""

    DELIVERED = 0
    LOST = 1
    TWICE = 2
    LATE = 3
    REFUSED = 4
    ANSWER_LOST = 5


FREEZES = (70.0, 8.0, 25.0, 45.0, 140.0, 400.0)
"""Seconds; a lease and a lock last 60."""
ADVANCES = (1.0, 0.05, 7.0, 31.0, 90.0)
RESTARTS = (1.0, 0.0, 30.0, 100.0)
OUTAGES = (3.0, 20.0, 80.0, 300.0)
"""Seconds without a primary; after a minute a slice gives up."""
LAGS = (4.0, 0.5, 15.0, 50.0)
"""Seconds for which the other members do not follow the primary, so that no majority acknowledges anything."""
DELAYS = (0.5, 5.0, 45.0, 200.0)


@frozen(kw_only=True)
class Weights:
    """Cumulated probabilities, as ``Decisions.draw`` takes them.

    Args:
        at: By kind of a point, of each ``Event`` but the first.
        at_hints: Of each ``Fate`` but the first.
        at_beats: That a heartbeat does not get through.
        redelivered: That a broker gives the job of a crashed worker to another one.
    """

    at: Mapping[Where, Sequence[float]]
    at_hints: Sequence[float]
    at_beats: Sequence[float]
    redelivered: Sequence[float]


CALM = Weights(at=dict.fromkeys(Where, (0.1,)), at_hints=(), at_beats=(), redelivered=(1.0,))
"""Nothing fails, but actors still take turns."""


def weights_of(random: Random) -> Weights:
    """The weights of one seed: each kind of fault is often off, mostly rare, sometimes frequent."""

    def rate(common: float) -> float:
        """A rate that this seed has off, rare, as it is, or frequent."""
        return common * random.choice((0.0, 0.3, 1.0, 3.0))

    points = {
        Event.SWITCH: random.choice((0.03, 0.15, 0.4)),
        Event.FAIL: rate(0.008),
        Event.CRASH: rate(0.004),
        Event.FREEZE: rate(0.004),
        Event.ADVANCE: rate(0.01),
        Event.STOP: rate(0.002),
        Event.RESTART: rate(0.001),
        Event.REPEAT: rate(0.01),
        Event.OUTAGE: rate(0.0007),
        Event.INTERFERE: rate(0.01),
    }
    documents = points | {
        Event.CRASH: rate(0.01),
        Event.FREEZE: rate(0.015),
        Event.INTERFERE: random.choice((0.0, 0.05, 0.2, 0.4)),
    }
    hints = [rate(0.06), rate(0.06), rate(0.06), rate(0.03), rate(0.03)]
    return Weights(
        at=_thresholds(points, documents, points),
        at_hints=tuple(accumulate(hints)),
        at_beats=(rate(0.1),),
        redelivered=(0.5,),
    )


def with_perils(weights: Weights, perils: frozenset[Peril], random: Random) -> Weights:
    """The same with the events of some perils, which matter most where something is decided."""
    failover, wake = random.choice((0.01, 0.05, 0.15)), random.choice((0.01, 0.05))
    events = {Event.FAILOVER: failover, Event.WAKE: wake, Event.LAG: failover / 3}
    of = {Event.FAILOVER: Peril.FAILOVER, Event.WAKE: Peril.WAKE, Event.LAG: Peril.FAILOVER}
    here = {event: rate if of[event] in perils else 0.0 for event, rate in events.items()}
    if not any(here.values()):
        return weights
    anywhere, documents = (_rates(weights.at[where]) for where in (Where.ANYWHERE, Where.DOCUMENTS))
    decisions = anywhere | {Event.SWITCH: random.choice((0.1, 0.3))} | {event: 3 * here[event] for event in here}
    return evolve(weights, at=_thresholds(anywhere | here, documents | here, decisions))


def _thresholds(
    anywhere: Mapping[Event, float], documents: Mapping[Event, float], decisions: Mapping[Event, float]
) -> Mapping[Where, Sequence[float]]:
    rates = {Where.ANYWHERE: anywhere, Where.DOCUMENTS: documents, Where.DECISIONS: decisions}
    return {where: tuple(accumulate(rates[where].values())) for where in Where}


def _rates(thresholds: Sequence[float]) -> dict[Event, float]:
    before = (0.0, *thresholds)
    return {Event(number): after - before[number - 1] for number, after in enumerate(thresholds, 1)}
