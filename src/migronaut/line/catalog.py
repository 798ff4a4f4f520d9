"""The migration files of this process, as the engine wants them."""

from __future__ import annotations

from threading import Lock

from migronaut.engine import Source
from migronaut.errors import InvalidNameError, MigrationNotFoundError
from migronaut.files import Migration, MigrationsDir


class FileCatalog:
    """Loads a file when it is asked for, and again when its text has changed."""

    def __init__(self, directory: MigrationsDir) -> None:
        self.directory = directory
        self._loaded: dict[str, Migration] = {}
        self._lock = Lock()

    def names(self) -> tuple[str, ...]:
        """All migration files, in order."""
        return self.directory.names()

    def find(self, name: str) -> Source | None:
        """A background migration by file name; None when there is none of that name."""
        try:
            migration = self.load(name)
        except (InvalidNameError, MigrationNotFoundError):
            return None
        if migration.background is None:
            return None
        return Source(
            name=name,
            checksum=migration.checksum,
            background=migration.background,
            description=migration.description,
            requires=migration.requires,
        )

    def load(self, name: str) -> Migration:
        """Any migration by file name.

        Raises:
            InvalidNameError, MigrationNotFoundError, InvalidMigrationError: It cannot be loaded.
        """
        checksum = self.directory.checksum(name)
        with self._lock:
            known = self._loaded.get(name)
            if known is None or known.checksum != checksum:
                known = self._loaded[name] = self.directory.load(name)
            return known
