"""``Migrator.background``: the façade of background migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from attrs import frozen

from migronaut.core.coordinator import Wait
from migronaut.core.ports import Owner, Stop
from migronaut.core.state import Direction, Status
from migronaut.core.wording import sentence
from migronaut.engine import Engine
from migronaut.engine.drive import Own, drive_all
from migronaut.engine.operator import controls
from migronaut.engine.operator.controls import Controlled
from migronaut.engine.operator.registering import Registered, register
from migronaut.engine.operator.status import BackgroundStatus, status_of
from migronaut.engine.operator.verify import Verified
from migronaut.engine.speaking import speaking
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent
from migronaut.errors import ChecksumMismatchError

_ACTIVE = (Status.BLOCKED, Status.PENDING, Status.RUNNING)


@frozen(kw_only=True)
class Worked:
    """What a call of ``work`` did.

    Args:
        statuses: How each migration stands now.
        held: Those that somebody has to put right first, each with what it waits for.
        own: What this process did for each; others may have worked beside it.
    """

    statuses: tuple[BackgroundStatus, ...]
    held: Mapping[str, Wait]
    own: Mapping[str, Own]

    def file_error(self) -> ChecksumMismatchError | None:
        """What to raise for those whose file on this machine is not the registered one."""
        told = {name: waiting.reason for name, waiting in self.held.items() if not waiting.awaits}
        if not told:
            return None
        halted = [
            {"name": each.name, "outcome": each.status, "notice": told[each.name]}
            for each in self.statuses
            if each.name in told
        ]
        message = (f"{name} cannot be worked here: {sentence(notice)}" for name, notice in told.items())
        return ChecksumMismatchError(" ".join(message), halted=halted)


class BackgroundMigrations:
    """Run, look at and control background migrations. Every control says who asks and why.

    Args:
        owner: Asked for when it is needed: after a fork it is another one.
    """

    def __init__(self, engine: Engine, *, owner: Callable[[], Owner]) -> None:
        self.engine = engine
        self._owner = owner

    # ------------------------------------------------------------------ looking

    def names(self) -> tuple[str, ...]:
        """Registered migrations, in order."""
        with speaking():
            return tuple(state.name for state in self.engine.ports.store.states())

    def status(self, name: str, *, rate: float | None = None, attended: bool = False) -> BackgroundStatus:
        """One migration as it is now.

        Args:
            rate: Documents per second, as observed by a caller who looks again and again.
            attended: The caller works it, also at a moment at which no lane does.

        Raises:
            NotRegisteredError: There is no such migration.
        """
        with speaking():
            return status_of(self.engine.ports, name, rate=rate, attended=attended)

    def statuses(self) -> tuple[BackgroundStatus, ...]:
        """All registered migrations as they are now."""
        return tuple(self.status(name) for name in self.names())

    # ------------------------------------------------------------------ working

    def register(
        self,
        name: str,
        *,
        direction: Direction = Direction.FORWARD,
        requested_by: str | None = None,
        reason: str | None = None,
    ) -> Registered:
        """Register one file without the line, or the other direction of a migration that has ended.

        Raises:
            MigrationNotFoundError, InvalidMigrationError, IrreversibleMigrationError, TransactionsUnsupportedError,
            BackgroundConflictError: Nothing was registered.
        """
        request = Request(by=requested_by, reason=reason)
        with speaking():
            return register(self.engine.ports, name, direction=direction, registration=uuid4().hex, request=request)

    def active(self) -> tuple[str, ...]:
        """Migrations with work to do, in order."""
        with speaking():
            return tuple(state.name for state in self.engine.ports.store.states() if state.status in _ACTIVE)

    def run(
        self, name: str | Sequence[str] | None = None, *, concurrency: int = 1, stop: Stop | None = None
    ) -> tuple[BackgroundStatus, ...]:
        """Work migrations to their end in this process, in turn; one that has to wait does not hold up the others.

        Args:
            name: One, several, or None for all active ones.
            concurrency: Lanes (threads) of this process; ``max_parallel`` of a migration bounds all processes.
            stop: Ends the work at the next batch.

        Returns:
            How each of them stands now. One whose ``awaited`` has something ``stuck`` was given up: what it waits for
            does not come by itself.

        Raises:
            NotRegisteredError: There is no such migration.
            ChecksumMismatchError: The file of one differs from the registered one, is missing or cannot be used on
                this machine. The others were worked; ``context["halted"]`` has those that were not. (Workers of a
                queue and a ``BackgroundRunner`` wait for the file: to them it is a deploy under way.)
        """
        chosen = self.active() if name is None else (name,) if isinstance(name, str) else tuple(name)
        worked = self.work(chosen, concurrency=concurrency, stop=stop, more=self.active if name is None else tuple)
        error = worked.file_error()
        if error is not None:
            raise error
        return worked.statuses

    def work(
        self,
        names: Sequence[str],
        *,
        concurrency: int = 1,
        stop: Stop | None = None,
        more: Callable[[], Iterable[str]] = tuple,
    ) -> Worked:
        """What ``run`` does, and who did how much of it.

        Args:
            names: The migrations.
            concurrency: See ``run``.
            stop: See ``run``.
            more: Asked again and again for further ones.

        Raises:
            NotRegisteredError: There is no such migration.
        """
        for each in names:
            self.status(each)  # an unknown name is refused before anything runs
        stopping = stop or StopEvent()
        with speaking():
            driven = drive_all(self.engine, names, owner=self._owner(), stop=stopping, lanes=concurrency, more=more)
        found = tuple(self.status(each) for each in dict.fromkeys([*names, *driven.own]))
        return Worked(statuses=found, held=driven.held, own=driven.own)

    def verify(self) -> Verified:
        """Look for old-shape documents in collections whose migration completed."""
        with speaking():
            return self.engine.verify()

    # ------------------------------------------------------------------ controlling

    def pause(
        self, name: str, *, wait: bool = False, requested_by: str | None = None, reason: str | None = None
    ) -> Controlled:
        """Stop lanes at their next batch; ``wait`` until they have (two minutes at most)."""
        with speaking():
            done = controls.pause(self.engine.ports, name, Request(by=requested_by, reason=reason))
            return self._waited(done) if wait else done

    def resume(self, name: str, *, requested_by: str | None = None, reason: str | None = None) -> Controlled:
        """Go on with a paused migration."""
        with speaking():
            return controls.resume(self.engine.ports, name, Request(by=requested_by, reason=reason))

    def cancel(
        self, name: str, *, wait: bool = False, requested_by: str | None = None, reason: str | None = None
    ) -> Controlled:
        """End a migration where it is; what was migrated stays migrated."""
        with speaking():
            done = controls.cancel(self.engine.ports, name, Request(by=requested_by, reason=reason))
            return self._waited(done) if wait else done

    def retry(
        self,
        name: str,
        *,
        from_start: bool = False,
        repin: bool = False,
        requested_by: str | None = None,
        reason: str | None = None,
    ) -> Controlled:
        """Try again what failed, was cancelled, or completed with documents left out.

        Args:
            from_start: Plan again from the first pass, with empty totals.
            repin: Use the file as it is on disk now.
        """
        request = Request(by=requested_by, reason=reason)
        with speaking():
            return controls.retry(self.engine.ports, name, request, from_start=from_start, repin=repin)

    def repin(self, name: str, *, requested_by: str | None = None, reason: str | None = None) -> Controlled:
        """Make the file on disk the registered one."""
        with speaking():
            return controls.repin(self.engine.ports, name, Request(by=requested_by, reason=reason))

    def unlock(self, name: str) -> Controlled:
        """Take the leases of all lanes away; their holders are fenced off at their next write."""
        with speaking():
            return controls.unlock(self.engine.ports, name)

    def _waited(self, done: Controlled) -> Controlled:
        return controls.wait_for_lanes(self.engine.ports, done, StopEvent())
