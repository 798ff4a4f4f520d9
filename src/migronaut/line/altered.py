"""What was applied or registered, and is not what it was any more: its file, or its state."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from migronaut.core.coordinator import FileFact
from migronaut.core.state import BackgroundState
from migronaut.errors import InvalidMigrationError, InvalidNameError, MigrationNotFoundError
from migronaut.files import MigrationsDir
from migronaut.mongo.changelog import InvalidRecord, Record, RecordKind, RecordStatus


@frozen(kw_only=True)
class Altered:
    """One file that was applied or registered, and has been changed or deleted since.

    Args:
        fact: ``changed`` or ``missing``.
        warning: What that means, for the operator.
    """

    name: str
    fact: FileFact
    warning: str


@frozen(kw_only=True)
class Lost:
    """A background migration that the changelog knows, and whose state is gone.

    Args:
        warning: What that means, and what to do.
    """

    name: str
    warning: str


def lost(records: Iterable[Record | InvalidRecord], states: Iterable[BackgroundState]) -> tuple[Lost, ...]:
    """Those that were registered, and are not any more.

    Args:
        records: Of the changelog.
        states: Of background migrations.
    """
    known = {state.name for state in states}
    return tuple(
        Lost(name=record.name, warning=_lost_warning(record.name))
        for record in records
        if isinstance(record, Record)
        and record.status is RecordStatus.APPLIED
        and record.kind is RecordKind.BACKGROUND
        and record.name not in known
    )


def _lost_warning(name: str) -> str:
    return (
        f"{name} was registered, but its state is not in this database: it was lost or not restored, or "
        "background_collection names another place; `migronaut up --yes` registers it again, and what is migrated "
        "already is left alone"
    )


def altered(
    directory: MigrationsDir, records: Iterable[Record | InvalidRecord], states: Iterable[BackgroundState]
) -> tuple[Altered, ...]:
    """Compare what was recorded with the files on disk; the text alone counts, nothing is executed.

    Args:
        records: Of the changelog.
        states: Of background migrations: theirs is the checksum that counts, a repin moves it.
    """
    background = {state.name: state.checksum for state in states}
    ordinary = {
        record.name: record.checksum
        for record in records
        if isinstance(record, Record)
        and record.status is RecordStatus.APPLIED
        and record.kind is not RecordKind.BACKGROUND
    }
    found = []
    for name, checksum in sorted((ordinary | background).items()):
        fact = _fact(directory, name, checksum)
        if fact is not FileFact.OK:
            found.append(Altered(name=name, fact=fact, warning=_warning(name, fact, registered=name in background)))
    return tuple(found)


def _fact(directory: MigrationsDir, name: str, checksum: str) -> FileFact:
    try:
        return FileFact.OK if directory.checksum(name) == checksum else FileFact.CHANGED
    except InvalidMigrationError:
        return FileFact.CHANGED
    except (InvalidNameError, MigrationNotFoundError):
        return FileFact.MISSING


def _warning(name: str, fact: FileFact, *, registered: bool) -> str:
    was = "registered" if registered else "applied"
    if fact is FileFact.MISSING:
        return f"{name} was {was}, but the file is not on this machine any more"
    if registered:
        return f"{name} was changed since it was registered; `migronaut background repin {name}` uses it as it is now"
    return f"{name} was changed since it was applied; `migronaut up` does not apply it again"
