"""What may go wrong, and how often. Each seed has weights of its own: many faults hide each other."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate
from random import Random

from attrs import frozen


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
DELAYS = (0.5, 5.0, 45.0, 200.0)


@frozen(kw_only=True)
class Weights:
    """Cumulated probabilities, as ``Decisions.draw`` takes them.

    Args:
        at_points: Of each ``Event`` but the first.
        at_documents: The same while a lane reads and writes documents, where it matters most.
        at_hints: Of each ``Fate`` but the first.
        at_beats: That a heartbeat does not get through.
        redelivered: That a broker gives the job of a crashed worker to another one.
    """

    at_points: Sequence[float]
    at_documents: Sequence[float]
    at_hints: Sequence[float]
    at_beats: Sequence[float]
    redelivered: Sequence[float]


CALM = Weights(at_points=(0.1,), at_documents=(0.1,), at_hints=(), at_beats=(), redelivered=(1.0,))
"""Nothing fails, but actors still take turns."""


def weights_of(random: Random) -> Weights:
    """The weights of one seed: each kind of fault is often off, mostly rare, sometimes frequent."""

    def rate(common: float) -> float:
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
        at_points=tuple(accumulate(points.values())),
        at_documents=tuple(accumulate(documents.values())),
        at_hints=tuple(accumulate(hints)),
        at_beats=(rate(0.1),),
        redelivered=(0.5,),
    )
