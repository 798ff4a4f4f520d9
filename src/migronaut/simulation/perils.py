"""The larger faults, each of which makes another world: which of them a seed has."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from random import Random


class Peril(StrEnum):
    """What a world may have beyond crashes, outages and lost hints; by these names they are switched."""

    FAILOVER = "failover"
    """Primaries are lost, and with them what no majority has."""
    WAKE = "wake"
    """Processes that stand still go on in the middle of what others do."""
    WAIT = "wait"
    """The operator waits until it is said that a migration has stopped, and takes it at its word."""
    REVERT = "revert"
    """What has ended is turned round."""
    CHAIN = "chain"
    """Migrations of one collection follow each other by version."""
    INDEX = "index"
    """The index on the version appears, is built, and vanishes."""
    NEIGHBOUR = "neighbour"
    """Another database on the same broker, with workers of its own."""
    FORGERY = "forgery"
    """Jobs that nobody of ours has sent."""
    STUBBORN = "stubborn"
    """One call fails, always."""


ALL = frozenset(Peril)
NONE: frozenset[Peril] = frozenset()

_SHARES = {
    Peril.FAILOVER: 0.4,
    Peril.WAKE: 0.5,
    Peril.WAIT: 0.5,
    Peril.REVERT: 0.3,
    Peril.CHAIN: 0.25,
    Peril.INDEX: 0.3,
    Peril.NEIGHBOUR: 0.1,
    Peril.FORGERY: 0.15,
    Peril.STUBBORN: 0.06,
}
"""In how many seeds each is."""


def perils_of(seed: int, allowed: Iterable[Peril]) -> frozenset[Peril]:
    """Those of the allowed ones that a seed has; whether it has one does not depend on the others."""
    return frozenset(each for each in allowed if Random(f"{each} {seed}").random() < _SHARES[each])
