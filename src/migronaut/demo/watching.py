"""Watching the work, killing one of its workers half way, and measuring how it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from attrs import evolve, frozen

from migronaut.core.ports import QueuePort
from migronaut.core.progress import Rate
from migronaut.core.state import TERMINAL
from migronaut.core.tickets import Role, TicketStatus
from migronaut.demo.processes import WorkerProcess, Workers
from migronaut.demo.project import NAME
from migronaut.engine.operator.status import BackgroundStatus
from migronaut.migrator import Migrator
from migronaut.queueing import heal

KILL_FROM = 45.0
KILL_TO = 85.0
"""Percent of the work between which a worker is killed."""

_LOOK = 0.25
_HEAL_INTERVAL = 1.0
_HINTS_TIMEOUT = 30.0
_STUCK = 120.0


class LiveDisplay(Protocol):
    """What shows the progress, inside a ``with`` block."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last view."""

    def update(self, *statuses: BackgroundStatus) -> None:
        """Show migrations as they are now."""


@frozen(kw_only=True)
class Kill:
    """What the kill of a worker did.

    Args:
        worker: Its number.
        at: When, on the monotonic clock.
        pids: Its processes.
        leases: How many it held.
        scanned: Documents done at that moment.
        reclaims: Leases that had been taken over before.
        recovered: Seconds until its leases were gone and the work went on; None = not seen.
        hint_back: Seconds until its lost hint was sent again; None = not seen.
    """

    worker: int
    at: float
    pids: frozenset[int]
    leases: int
    scanned: int
    reclaims: int
    recovered: float | None = None
    hint_back: float | None = None


@frozen(kw_only=True)
class Watched:
    """How the work ended.

    Args:
        status: The migration at its end, or where it stands still.
        kill: None when the work was through before a worker could be killed.
        problem: Why watching ended before the migration did.
    """

    status: BackgroundStatus
    kill: Kill | None
    problem: str | None = None


class Watch:
    """Looks at the migration four times a second until it has ended.

    Args:
        port: The queue; None when no queue is used.
        say: Prints a line above the progress.
    """

    def __init__(
        self,
        migrator: Migrator,
        workers: Workers,
        *,
        display: LiveDisplay,
        port: QueuePort[Any] | None,
        say: Callable[[str], None],
    ) -> None:
        self._migrator = migrator
        self._workers = workers
        self._display = display
        self._port = port
        self._say = say
        self._kill: Kill | None = None
        self._rate = Rate(done=0, at=time.monotonic(), tau=3.0)
        self._healed_at = self._moved_at = time.monotonic()

    def run(self) -> Watched:
        """Watch until the migration has ended and nothing of it is under way in the queue."""
        while True:
            status = self._look()
            if status.status in TERMINAL:
                self._wait_for_hints()
                return Watched(status=status, kill=self._kill)
            problem = self._standstill()
            if problem is not None:
                return Watched(status=status, kill=self._kill, problem=problem)
            self._act(status)
            time.sleep(_LOOK)

    # ------------------------------------------------------------------ looking

    def _look(self) -> BackgroundStatus:
        now = time.monotonic()
        status = self._migrator.background.status(NAME, rate=self._rate.per_second, attended=True)
        if status.totals.scanned != self._rate.done:
            self._moved_at = now
        self._rate = self._rate.observe(status.totals.scanned, now)
        self._display.update(status)
        self._look_at_recovery(status, now)
        return status

    def _standstill(self) -> str | None:
        if not self._workers.running:
            last = self._workers.ended[-1]
            return f"no worker is left; worker {last.number} ended with {last.exit_code}: {last.last_words}"
        if time.monotonic() - self._moved_at > _STUCK:
            return f"nothing happened for {_STUCK:.0f} s"
        return None

    def _look_at_recovery(self, status: BackgroundStatus, now: float) -> None:
        kill = self._kill
        if kill is None or kill.recovered is not None:
            return
        gone = not any(lease.pid in kill.pids for lease in status.leases)
        taken_over = status.totals.reclaims >= kill.reclaims + kill.leases
        ended = status.status in TERMINAL
        if gone and (ended or (taken_over and status.totals.scanned > kill.scanned)):
            self._kill = evolve(kill, recovered=now - kill.at)
            self._say(
                f"{now - kill.at:.1f} s after the kill the other worker has taken over what the killed one held, "
                "and goes on from its last checkpoint."
            )

    # ------------------------------------------------------------------ acting

    def _act(self, status: BackgroundStatus) -> None:
        if self._kill is None and KILL_FROM <= status.progress.percent <= KILL_TO:
            self._try_to_kill()
        self._heal_at_times()

    def _try_to_kill(self) -> None:
        """Kill a worker that holds leases; frozen first, so that it cannot give them back meanwhile."""
        for worker in self._workers.running:
            pids = worker.freeze()
            status = self._migrator.background.status(NAME)
            held = sum(lease.pid in pids for lease in status.leases)
            if held and status.progress.percent <= KILL_TO:
                worker.kill()
                self._killed(worker, pids, held, status)
                return
            worker.thaw()

    def _killed(self, worker: WorkerProcess, pids: frozenset[int], held: int, status: BackgroundStatus) -> None:
        self._kill = Kill(
            worker=worker.number,
            at=time.monotonic(),
            pids=pids,
            leases=held,
            scanned=status.totals.scanned,
            reclaims=status.totals.reclaims,
        )
        partitions = "1 partition" if held == 1 else f"{held} partitions"
        self._say(f"Worker {worker.number} is killed now (SIGKILL), while it holds {partitions}.")

    # ------------------------------------------------------------------ hints

    def _heal_at_times(self) -> None:
        """Send lost hints again, as `migronaut background heal` and the beats of workers do."""
        now = time.monotonic()
        if self._port is None or now - self._healed_at < _HEAL_INTERVAL:
            return
        self._healed_at = now
        lost = self._lost_lanes()
        heal(self._port, self._migrator)
        if lost:
            self._hint_is_back(now)

    def _lost_lanes(self) -> int:
        """Lane tickets whose worker is gone, or that somebody else's heal has sent again already."""
        tickets = self._migrator.ports.tickets
        given_back = sum(ticket.losses > 0 for ticket in tickets.of(NAME))
        overdue = tickets.overdue()
        return given_back + sum(each.role is Role.LANE and each.status is TicketStatus.WORKING for each in overdue)

    def _hint_is_back(self, now: float) -> None:
        kill = self._kill
        if kill is not None and kill.hint_back is None:
            self._kill = evolve(kill, hint_back=now - kill.at)
            self._say(f"{now - kill.at:.1f} s after the kill the heal has sent the lost hint to the queue again.")

    def _wait_for_hints(self) -> None:
        """Let the queue come to rest: a lost hint may come back after the work is through."""
        end = time.monotonic() + _HINTS_TIMEOUT
        while self._port is not None and self._migrator.ports.tickets.of(NAME) and time.monotonic() < end:
            self._heal_at_times()
            time.sleep(_LOOK)
