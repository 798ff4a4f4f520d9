"""The engine's front: what a queue, a runner and the command line call."""

from __future__ import annotations

import logging

from migronaut.core.coordinator import Wait
from migronaut.core.lane import SliceResult
from migronaut.core.ports import Owner, Stop
from migronaut.engine.coordinator.coordinate import Answer, coordinate
from migronaut.engine.lane.slice import SliceRequest, run_slice
from migronaut.engine.operator.verify import OnDrift, Verified, verify
from migronaut.engine.ports import Ports

WAITING_LOG = "migronaut.background.waiting"
"""The logger of waits that may not end by themselves; whoever shows the status can do without."""
_logger = logging.getLogger(WAITING_LOG)


class Engine:
    """Drives background migrations over ports; safe to share between threads.

    Args:
        ports: The outside world.
        on_drift: What the drift poll does with old-shape documents of a completed migration.
    """

    def __init__(self, ports: Ports, *, on_drift: OnDrift = OnDrift.REOPEN) -> None:
        self.ports = ports
        self.on_drift = on_drift
        self._told: dict[str, str] = {}

    def coordinate(self, name: str, *, owner: Owner, stop: Stop) -> Answer:
        """Do what has to be done for a migration until lanes must work, time must pass, or it is over."""
        answer = coordinate(self.ports, name, owner=owner, stop=stop)
        self._tell(name, answer.reason if isinstance(answer, Wait) and answer.for_operator else None)
        return answer

    def _tell(self, name: str, reason: str | None) -> None:
        """Warn once of what may not end by itself; a coordinator that waits asks every few seconds."""
        if reason is None:
            self._told.pop(name, None)
        elif self._told.get(name) != reason:
            self._told[name] = reason
            _logger.warning("%s: %s", name, reason)

    def run_slice(
        self, name: str, *, owner: Owner, stop: Stop, run: str = "", attempt: int = 0, slice_length: float | None = None
    ) -> SliceResult:
        """Work as one lane for one slice; what the migration raises is in the result.

        Args:
            run: Shown to transforms as ``ctx.background.run``.
            attempt: Slices in a row that raised before.
            slice_length: Seconds; None = as the migration says.
        """
        request = SliceRequest(owner=owner, stop=stop, run=run, attempt=attempt, length=slice_length)
        return run_slice(self.ports, name, request)

    def verify(self) -> Verified:
        """Look for drift in completed migrations."""
        return verify(self.ports, self.on_drift)
