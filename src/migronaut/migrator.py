"""``Migrator``: the one object users hold. It wires the parts and holds no logic of its own."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from pymongo import MongoClient
from pymongo.database import Database

from migronaut.background import BackgroundMigrations
from migronaut.config import Config, read_environment, resolve, resolve_call
from migronaut.core.ports import Owner, Stop
from migronaut.engine import Engine, Ports
from migronaut.engine.lane.ahead import ThreadWriteBehind
from migronaut.engine.operator.verify import OnDrift
from migronaut.engine.speaking import speaking
from migronaut.engine.states import Request
from migronaut.engine.stopping import StopEvent, SystemClock, ThreadHeartbeat
from migronaut.errors import ConfigInvalidError, MigronautError, UsageError, describe, redact
from migronaut.files import MigrationsDir, make_importable
from migronaut.line import Altered, FileCatalog, Line, Lost, Row
from migronaut.mongo.changelog import MongoChangelog
from migronaut.mongo.connection import connect
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.locks import MongoLocks
from migronaut.mongo.store import MongoStore
from migronaut.mongo.tickets import MongoTickets
from migronaut.queueing import QueueSettings

APP = "MIGRONAUT_APP"
"""Variable ``package.module:factory``: a function that returns a ``Migrator``, for workers that configure in code."""

PROJECT_DIR = "MIGRONAUT_PROJECT_DIR"
"""Variable with the directory that such a module is imported from; without it, the working directory."""


class Migrator:
    """Versioned migrations and background migrations of one database.

    Connects when it is first needed. Usable as a context manager. Made before a fork, it connects anew in the child.

    Args:
        config: Resolved settings.
        settings: Or the settings themselves, e.g. ``Migrator(client=client, db="shop", migrations_dir="migrations")``.
            Nothing else is read then: no variable, no ``.env``, no configuration file.

    Raises:
        ConfigInvalidError: All problems of the settings at once.
        UsageError: Both a client and a uri.
    """

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise ConfigInvalidError("Give a Config or single settings to Migrator, not both.")
        if settings.get("client") is not None and settings.get("uri") is not None:
            raise UsageError("Give a client or a uri to Migrator, not both: one of them would be ignored.")
        self.config = config or resolve_call(settings, cwd=Path.cwd())
        self.logger = self.config.logger or logging.getLogger("migronaut")
        _made.add(self)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """A migrator as ``MIGRONAUT_*``, ``.env`` and the configuration file in the working directory say.

        Raises:
            ConfigInvalidError: All problems at once.
        """
        return cls(resolve(flags={}, env=dict(os.environ if environ is None else environ), cwd=Path.cwd()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, unless it is the caller's own client."""
        if self.config.client is None and "client" in self.__dict__:
            self.client.close()

    @property
    def owner(self) -> Owner:
        """This process, as leases and locks name it."""
        return Owner(name=_user(), host=socket.gethostname(), pid=os.getpid())

    @cached_property
    def client(self) -> MongoClient[Any]:
        """The client: the caller's own, or one that connects now.

        Raises:
            ConnectionFailedError: Nobody answers, or refuses us.
        """
        return self.config.client or connect(self.config.uri or "")

    @cached_property
    def db(self) -> Database[Any]:
        """The database that is migrated."""
        return self.client[self.config.db]

    @cached_property
    def catalog(self) -> FileCatalog:
        """The migration files."""
        return FileCatalog(MigrationsDir(self.config.migrations_dir, project=self.config.project_dir))

    @cached_property
    def ports(self) -> Ports:
        """The engine's outside world: this database, these files, this process."""
        config, db = self.config, self.db
        store = MongoStore(db, background_collection=config.background_collection)
        return Ports(
            store=store,
            tickets=MongoTickets(db, background_collection=config.background_collection, grace=config.heal_grace),
            locks=MongoLocks(db, lock_collection=config.lock_collection),
            documents=lambda spec: MongoDocuments(store, db, spec),
            catalog=self.catalog,
            clock=SystemClock(),
            heartbeat=ThreadHeartbeat(),
            write_behind=ThreadWriteBehind(),
            lease_ttl=config.lease_ttl,
            lock_ttl=config.lock_ttl,
        )

    @property
    def queue_settings(self) -> QueueSettings:
        """What workers of a queue go by."""
        config = self.config
        return QueueSettings(
            heal_interval=config.heal_interval,
            verify_interval=config.verify_interval,
            slice_length=config.slice_length,
        )

    @cached_property
    def background(self) -> BackgroundMigrations:
        """Background migrations: run, look at, control."""
        engine = Engine(self.ports, on_drift=OnDrift(self.config.background_on_drift))
        return BackgroundMigrations(engine, owner=lambda: self.owner)

    @cached_property
    def _line(self) -> Line:
        config = self.config
        return Line(
            db=self.db,
            catalog=self.catalog,
            changelog=MongoChangelog(self.db, collection=config.migrations_collection),
            locks=MongoLocks(self.db, lock_collection=config.lock_collection),
            ports=self.ports,
            owner=self.owner,
            logger=self.logger,
            lock_ttl=config.lock_ttl,
            wait_for_lock=config.on_lock_held == "wait",
            environment=config.environment,
        )

    def up(
        self,
        name: str | None = None,
        *,
        stop: Stop | None = None,
        requested_by: str | None = None,
        reason: str | None = None,
        restore: bool = False,
    ) -> tuple[Row, ...]:
        """Apply what is pending, or one file: bodies run, background migrations are registered.

        Args:
            stop: Ends the run after the current migration.
            requested_by: Kept in the changelog.
            reason: Kept in the changelog.
            restore: Also register again what ``lost`` names.

        Raises:
            MigronautError: Of what kind, says its class; rows of what was done are in ``context["results"]``.
        """
        with speaking():
            request = Request(by=requested_by, reason=reason)
            return self._line.up(name, request=request, stop=stop or StopEvent(), restore=restore)

    def pending(self) -> tuple[str, ...]:
        """The files that ``up`` would take, in order."""
        with speaking():
            return self._line.pending()

    def altered(self) -> tuple[Altered, ...]:
        """Files that were applied or registered, and have been changed or deleted since."""
        with speaking():
            return self._line.altered()

    def lost(self) -> tuple[Lost, ...]:
        """Background migrations that were registered, and whose state is gone from the database."""
        with speaking():
            return self._line.lost()


def load_migrator(environ: Mapping[str, str]) -> Migrator:
    """The migrator of a worker process: ``MIGRONAUT_APP`` names a factory, else the environment configures it.

    Raises:
        ConfigInvalidError: Neither leads to one.
    """
    variables = read_environment(environ, cwd=Path.cwd())
    return migrator_of(variables) if variables.get(APP) else Migrator.from_environment(environ)


def migrator_of(variables: Mapping[str, str]) -> Migrator:
    """What the function makes that ``MIGRONAUT_APP`` names; its module is imported as from the project's directory.

    Args:
        variables: The environment, with ``.env`` filled in.

    Raises:
        ConfigInvalidError: There is no such function, or it makes none.
    """
    make_importable(Path.cwd() / variables.get(PROJECT_DIR, ""))
    module, _, name = variables[APP].partition(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigInvalidError(
            f"{APP} leads to nothing ({type(error).__name__}: {redact(error)}); write package.module:factory, "
            "with a function that returns a Migrator."
        ) from None
    try:
        made = factory() if callable(factory) else None
    except MigronautError:
        raise
    except Exception as error:
        raise ConfigInvalidError(
            f"The function that {APP} names failed ({describe(error)}); set what it needs, or correct it."
        ) from error
    if not isinstance(made, Migrator):
        raise ConfigInvalidError(f"{APP} must name a function that returns a Migrator.")
    return made


_made: WeakSet[Migrator] = WeakSet()
_OF_A_PROCESS = ("catalog", "client", "db", "ports", "background", "_line")


def _after_fork() -> None:
    """In the child: connections and locks belong to the process that made them."""
    for migrator in _made:
        for name in _OF_A_PROCESS:
            vars(migrator).pop(name, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _user() -> str:
    """Who runs this, as shown to operators."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user in this container
        return f"uid-{os.getuid()}"
