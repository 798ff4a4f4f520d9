"""Sitting out a failover: the database being away for a moment is nobody's fault."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from migronaut.core.lane import backoff
from migronaut.core.ports import Clock, Stop, UnavailableError

OUTAGE = 60.0
"""Seconds that a failover or a restart may take before it counts as a failure."""
_LONGEST = 5.0
_logger = logging.getLogger("migronaut.background")

T = TypeVar("T")


def patiently(work: Callable[[], T], *, name: str, clock: Clock, stop: Stop) -> T:
    """Do something that may be repeated, again and again while no primary answers.

    Args:
        name: The migration that waits, for the log.
        stop: Ends the waiting.

    Raises:
        UnavailableError: Nobody answered for ``OUTAGE`` seconds, or it had to stop.
    """
    failures = 0
    started = clock.monotonic()
    while True:
        try:
            return work()
        except UnavailableError:
            failures += 1
            if stop.is_set() or clock.monotonic() - started >= OUTAGE:
                raise
            _logger.warning("%s: the database is away; trying again", name)
            clock.sleep(min(_LONGEST, 0.1 * backoff(failures)), stop)
