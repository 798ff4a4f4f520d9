"""Which files a run takes, in which order: pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from migronaut.core.wording import did_you_mean
from migronaut.errors import InvalidMigrationError, MigrationNotFoundError
from migronaut.files import Migration


def pending(names: Sequence[str], applied: Collection[str], *, only: str | None = None) -> tuple[str, ...]:
    """The files that are not applied, in order.

    Args:
        only: Take this one alone.

    Raises:
        MigrationNotFoundError: ``only`` names no file.
    """
    if only is not None and only not in names:
        raise MigrationNotFoundError(
            f"There is no migration {only!r}; check the name.{did_you_mean(only, names)}", name=only
        )
    return tuple(name for name in names if name not in applied and only in (None, name))


def refuse_unsupported(migration: Migration) -> None:
    """Refuse what a body asks for and would not get.

    Raises:
        InvalidMigrationError: It asks for a transaction or a time limit.
    """
    asked = [
        setting
        for setting, given in (
            ("use_transaction", migration.use_transaction),
            ("timeout", migration.timeout is not None),
        )
        if given
    ]
    if asked:
        raise InvalidMigrationError(
            f"{migration.name} sets {' and '.join(asked)}, which is not supported yet; leave it out.",
            name=migration.name,
        )
