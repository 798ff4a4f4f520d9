"""How much of the machine others used meanwhile: figures from a busy machine are worth less, and should say so."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.machine import cores

_IDLE = (3, 4)
"""Where a line ``cpu`` of /proc/stat, after its first word, tells idle time and time that waited for disks."""
_GUEST = 8
"""From here on time is told a second time."""


class Neighbours:
    """Watches from its creation on.

    Args:
        server: Process id of the MongoDB that is ours.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._since = time.monotonic()
        self._before = self._others()

    def share(self) -> float | None:
        """The part of all cores that was not ours and not idle, 0 to 1; None where the system does not tell."""
        if self._before is None:
            return None
        now = self._others() or 0.0
        seconds = time.monotonic() - self._since
        return round(max(0.0, (now - self._before) / (seconds * cores())), 2) if seconds else None

    def _others(self) -> float | None:
        """Seconds of computing that were not ours, since the machine was started."""
        try:
            whole = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
            server = Path(f"/proc/{self._server}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return None
        busy = sum(ticks for index, ticks in enumerate(whole[:_GUEST]) if index not in _IDLE)
        told = os.times()
        own = told.user + told.system + told.children_user + told.children_system
        return (busy - int(server[11]) - int(server[12])) / os.sysconf("SC_CLK_TCK") - own
