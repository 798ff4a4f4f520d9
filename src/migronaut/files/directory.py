"""The directory of migration files: which files count, in which order, under which names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

from migronaut.core.names import name_problem
from migronaut.errors import InvalidMigrationError, InvalidNameError, MigrationNotFoundError
from migronaut.files.importing import make_importable
from migronaut.files.loading import Migration, checksum_of, load_file
from migronaut.files.passing import OWN, Passed, is_file, passed_over


@frozen
class MigrationsDir:
    """A directory of migration files. Nothing is cached: every call looks at the disk.

    Args:
        path: The directory; it need not exist yet.
        project: What the files can import from; None = what the process can.
    """

    path: Path = field(converter=Path)
    project: Path | None = None

    def names(self) -> tuple[str, ...]:
        """Return the migrations in their order: the ``*.py`` files, sorted by name.

        Dotfiles, ``_*.py`` (so ``__init__.py`` too), our own ``migronaut_config.py`` and folders are no migrations.

        Raises:
            MigrationNotFoundError: The directory does not exist or cannot be listed.
            InvalidNameError: A file has a name that no migration can have.
        """
        found = [entry.name for entry in self._entries() if _is_migration_name(entry.name) and is_file(entry)]
        for name in found:
            if problem := name_problem(name):
                raise InvalidNameError(f"The file name {_shown(name)} {problem}; rename the file.")
        return tuple(sorted(found))

    def passed_over(self) -> tuple[Passed, ...]:
        """Return the files that somebody might take for migrations and that are none, with the reason.

        Raises:
            MigrationNotFoundError: See ``names``.
        """
        return passed_over(self._entries())

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                yield from entries
        except OSError as error:
            raise MigrationNotFoundError(
                f"The migrations directory {str(self.path)!r} cannot be read ({error.strerror}); "
                "create it with `migronaut init` or set migrations_dir.",
                directory=str(self.path),
            ) from error

    def path_of(self, name: str) -> Path:
        """Return the path of a migration whose name may come from the database or a queue.

        Raises:
            InvalidNameError: The name is not a bare migration file name, or leads out of the directory.
            MigrationNotFoundError: There is no such file.
        """
        _require_bare(name)
        path = self.path / name
        try:
            inside = path.resolve().is_relative_to(self.path.resolve())
            exists = path.is_file()
        except (OSError, RuntimeError) as error:
            raise InvalidNameError(f"{_shown(name)} cannot be followed to a file; rename the file.") from error
        if not inside:
            raise InvalidNameError(
                f"{_shown(name)} leads out of the migrations directory; put the file itself there.", name=name
            )
        if not exists:
            raise MigrationNotFoundError(
                f"There is no migration {_shown(name)} in {str(self.path)!r}; "
                "check the name, and that this process has the same files as the others.",
                name=name,
            )
        return path

    def checksum(self, name: str) -> str:
        """Return the checksum of a migration's text, ``"sha256-1:<hex>"``.

        Raises:
            InvalidNameError: See ``path_of``.
            MigrationNotFoundError: See ``path_of``.
            InvalidMigrationError: The file cannot be read.
        """
        return checksum_of(_read(self.path_of(name)))

    def load(self, name: str) -> Migration:
        """Execute a migration file as it is on disk now, and check what it declares.

        Raises:
            InvalidNameError: See ``path_of``.
            MigrationNotFoundError: See ``path_of``.
            InvalidMigrationError: The file cannot be used; the message says where and why.
        """
        path = self.path_of(name)
        if self.project is not None:
            make_importable(self.project)
        return load_file(path, _read(path), sequence=self.names())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidMigrationError(
            f"{path.name} cannot be read ({error.strerror}); check its permissions.", name=path.name
        ) from error


def _is_migration_name(name: str) -> bool:
    return name.endswith(".py") and not name.startswith((".", "_")) and name != OWN


def _require_bare(name: object) -> None:
    if not isinstance(name, str):
        raise InvalidNameError(f"A migration name is text, not {type(name).__name__}.")
    if problem := name_problem(name):
        raise InvalidNameError(f"{_shown(name)} {problem}.")


def _shown(name: str) -> str:
    """A name from outside, short and without control characters."""
    return ascii(name) if len(name) <= 100 else ascii(name[:99]) + "…"
