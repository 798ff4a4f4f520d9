"""Running the pending files: lock, body, changelog, one after the other; the first failure stops the line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from attrs import frozen
from pymongo.database import Database

from migronaut.core.order import waiting_text
from migronaut.core.ports import Clock, Heartbeat, Owner, Stop
from migronaut.core.state import Direction
from migronaut.core.wording import sentence
from migronaut.engine import Ports
from migronaut.engine.coordinator.requirements import unmet_of
from migronaut.engine.operator.registering import register, require_background_files
from migronaut.engine.states import Request
from migronaut.errors import (
    BackgroundPendingError,
    LockHeldError,
    LockLostError,
    MigrationFailedError,
    MigronautError,
    RunAbortedError,
    describe,
)
from migronaut.files import Migration
from migronaut.line.altered import Altered, Lost, altered, lost
from migronaut.line.catalog import FileCatalog
from migronaut.line.context import MigrationContext, RunDetails
from migronaut.line.selection import pending, refuse_unsupported
from migronaut.mongo.changelog import Entry, MongoChangelog, Record, RecordKind, RecordStatus
from migronaut.mongo.locks import MongoLocks
from migronaut.spec.raising import is_own

LOCK = "migronaut"


@frozen(kw_only=True)
class Row:
    """One file of a run: ``applied`` or (background) ``registered``; seconds; advice for the operator."""

    name: str
    outcome: str
    duration: float
    advice: str | None = None


@frozen(kw_only=True)
class Line:
    """The versioned migrations of one directory and one database.

    Args:
        wait_for_lock: Wait for a held lock instead of giving up.
        environment: Kept in the changelog.
    """

    db: Database[Any]
    catalog: FileCatalog
    changelog: MongoChangelog
    locks: MongoLocks
    ports: Ports
    owner: Owner
    logger: logging.Logger
    lock_ttl: float
    wait_for_lock: bool
    environment: str | None

    def up(self, only: str | None, *, request: Request, stop: Stop, restore: bool = False) -> tuple[Row, ...]:
        """Apply what is pending, in order.

        Args:
            restore: Also register again what was registered, and whose state is lost.

        Raises:
            LockHeldError, LockLostError, InvalidMigrationError, MigrationFailedError, BackgroundPendingError,
            RunAbortedError: ``context["results"]`` has the rows of what was done before.
        """
        self._chosen(only, restore=restore)  # refuse what cannot be loaded before anything is locked or written
        with self._locked(stop) as lost:
            run = RunDetails(
                id=uuid4().hex, batch=self.changelog.next_batch(), requested_by=request.by, reason=request.reason
            )
            rows: list[Row] = []
            for migration in self._chosen(only, restore=restore):
                self._may_go_on(rows, stop, lost)
                rows.append(self._apply(migration, run, request, stop, rows))
            return tuple(rows)

    def pending(self) -> tuple[str, ...]:
        """The files that `up` would take."""
        return pending(self.catalog.names(), self._applied())

    def altered(self) -> tuple[Altered, ...]:
        """Files that were applied or registered, and have been changed or deleted since."""
        return altered(self.catalog.directory, self.changelog.records(), self.ports.store.states())

    def lost(self) -> tuple[Lost, ...]:
        """Background migrations that were registered, and whose state is gone."""
        return lost(self.changelog.records(), self.ports.store.states())

    def _chosen(self, only: str | None, *, restore: bool) -> tuple[Migration, ...]:
        done = self._applied() - {each.name for each in self.lost()} if restore else self._applied()
        chosen = tuple(self.catalog.load(name) for name in pending(self.catalog.names(), done, only=only))
        for migration in chosen:
            refuse_unsupported(migration)
        return chosen

    def _applied(self) -> frozenset[str]:
        return frozenset(
            record.name
            for record in self.changelog.records()
            if isinstance(record, Record) and record.status is RecordStatus.APPLIED
        )

    def _may_go_on(self, rows: list[Row], stop: Stop, lost: Stop) -> None:
        if lost.is_set():
            raise LockLostError(
                "The migration lock was lost; the rest was not started. See who holds it, then run again.",
                results=_plain(rows),
            )
        if stop.is_set():
            raise RunAbortedError(
                f"Stopped on request ({stop.reason}); the rest was not started. Run again to go on.",
                results=_plain(rows),
            )

    def _apply(self, migration: Migration, run: RunDetails, request: Request, stop: Stop, rows: list[Row]) -> Row:
        started = self.ports.clock.monotonic()
        advice = None
        self._require(migration, rows)
        if migration.background is not None:
            advice = self._register(migration, request, rows)
        else:
            self._call(migration, run, stop, rows, started)
        duration = self.ports.clock.monotonic() - started
        self.changelog.applied(self._entry(migration, run, duration))
        outcome = "applied" if migration.background is None else "registered"
        return Row(name=migration.name, outcome=outcome, duration=duration, advice=advice)

    def _require(self, migration: Migration, rows: list[Row]) -> None:
        """An ordinary body waits for what it requires; a background one registers as blocked by itself."""
        if migration.background is not None:
            return
        require_background_files(self.catalog, migration.name, migration.requires)
        unmet = unmet_of(self.ports, migration.requires)
        if unmet:
            raise BackgroundPendingError(
                f"{migration.name} {waiting_text(unmet)}; once that is through, run `migronaut up` again.",
                name=migration.name,
                results=_plain(rows),
            )

    def _register(self, migration: Migration, request: Request, rows: list[Row]) -> str | None:
        try:
            found = register(
                self.ports, migration.name, direction=Direction.FORWARD, registration=uuid4().hex, request=request
            )
        except MigronautError as error:
            named = migration.name in error.message
            message = error.message if named else f"{migration.name}: {error.message}"
            raise type(error)(message, **{"name": migration.name, "results": _plain(rows)} | error.context) from error
        return found.advice

    def _call(self, migration: Migration, run: RunDetails, stop: Stop, rows: list[Row], started: float) -> None:
        context = MigrationContext(
            db=self.db, client=self.db.client, logger=self.logger, stop=stop, direction="up", run=run
        )
        body = migration.up
        if body is None:
            raise AssertionError("a file without background has up()")
        try:
            body(context)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_own(error):
                raise
            # What the error says may quote a document, or a secret: it stays in the process.
            text = describe(error, within=str(self.catalog.directory.path / migration.name))
            duration = self.ports.clock.monotonic() - started
            self.changelog.failed(self._entry(migration, run, duration), error=text)
            raise MigrationFailedError(
                f"{migration.name} failed: {sentence(text)} What it wrote before stays; mend it, then run "
                "`migronaut up` again (--verbose shows the whole trace).",
                name=migration.name,
                results=_plain(rows),
            ) from error

    def _entry(self, migration: Migration, run: RunDetails, duration: float) -> Entry:
        return Entry(
            name=migration.name,
            batch=run.batch,
            checksum=migration.checksum,
            kind=RecordKind.NONE if migration.background is None else RecordKind.BACKGROUND,
            description=migration.description,
            duration=duration,
            environment=self.environment,
            run_id=run.id,
            executed_by=self.owner.name,
            requested_by=run.requested_by,
            reason=run.reason,
        )

    @contextmanager
    def _locked(self, stop: Stop) -> Iterator[Stop]:
        nonce = self._acquire(stop)
        try:
            heartbeat: Heartbeat = self.ports.heartbeat
            with heartbeat.beating(lambda: self.locks.renew(LOCK, nonce), ttl=self.lock_ttl) as lost:
                yield lost
        finally:
            self.locks.release(LOCK, nonce)

    def _acquire(self, stop: Stop) -> str:
        nonce = self.locks.acquire(LOCK, owner=self.owner, ttl=self.lock_ttl)
        if nonce is None and self.wait_for_lock:
            nonce = self._wait(stop, self.ports.clock)
        if nonce is None:
            holder = self.locks.holder(LOCK)
            who = f" by {holder.owner} (pid {holder.pid} on {holder.host})" if holder else ""
            raise LockHeldError(
                f"Another run holds the migration lock{who}; wait until it has ended, then run again. The lock of a "
                f"run that died ends by itself, lock_ttl ({self.lock_ttl:g} s) after its last sign of life."
            )
        return nonce

    def _wait(self, stop: Stop, clock: Clock) -> str | None:
        """Wait while the holder is alive; a heartbeat of the holder starts the budget again."""
        pause, stalled, seen = 0.5, clock.monotonic(), None
        while not stop.is_set():
            nonce = self.locks.acquire(LOCK, owner=self.owner, ttl=self.lock_ttl)
            if nonce is not None:
                return nonce
            holder = self.locks.holder(LOCK)
            beat = holder.expires_at if holder else None
            if beat != seen:
                seen, stalled = beat, clock.monotonic()
            if clock.monotonic() - stalled >= max(90.0, 1.5 * self.lock_ttl):
                return None
            clock.sleep(pause, stop)
            pause = min(5.0, pause * 2)
        return None


def _plain(rows: list[Row]) -> list[dict[str, Any]]:
    return [{"name": row.name, "outcome": row.outcome, "duration": round(row.duration, 3)} for row in rows]
