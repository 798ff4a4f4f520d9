"""One class per error code, each with the exit code the command line answers with.

Every message says what happened, why, and what to do next. ``context`` carries facts for machines
(``--json``); neither ever holds a secret, a document id or the content of a document.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any, ClassVar


class MigronautError(Exception):
    """Base of every error a user can meet.

    Args:
        message: One clear sentence: what, why, what to do.
        context: Facts for machines; values must be plain JSON and already redacted.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class UsageError(MigronautError):
    """The call or the command line makes no sense as it was given."""

    code = "usage"
    exit_code = 2


class LockHeldError(MigronautError):
    """Another run holds the lock."""

    code = "lock-held"
    exit_code = 3


class ChecksumMismatchError(MigronautError):
    """A migration file is not the one that was registered or applied."""

    code = "checksum-mismatch"
    exit_code = 4


class ConnectionFailedError(MigronautError):
    """MongoDB or the broker of a queue did not answer, or refused us."""

    code = "connection-failed"
    exit_code = 5


class ServerRefusedError(MigronautError):
    """MongoDB answered, with an error that will be the same when it is asked again."""

    code = "server-refused"


class ConfigInvalidError(MigronautError):
    """The configuration has problems; all of them are listed."""

    code = "config-invalid"
    exit_code = 6


class MigrationFailedError(MigronautError):
    """The body of a migration raised."""

    code = "migration-failed"
    exit_code = 7


class MigrationNotFoundError(MigronautError):
    """No migration file of that name exists."""

    code = "migration-not-found"
    exit_code = 8


class NotRegisteredError(MigronautError):
    """The background migration is not registered in this database."""

    code = "not-registered"
    exit_code = 9


class LockLostError(MigronautError):
    """The lock was lost while work was going on."""

    code = "lock-lost"
    exit_code = 10


class LeaseLostError(MigronautError):
    """A lane wrote with a lease that is no longer its own; nothing was written."""

    code = "lease-lost"
    exit_code = 10


def lease_lost() -> LeaseLostError:
    """The error of a lane whose lease was taken away."""
    return LeaseLostError(
        "The lease of this partition was taken away; nothing was written. Another lane goes on from the last "
        "checkpoint."
    )


class RunAbortedError(MigronautError):
    """A run was stopped on request before it was through."""

    code = "run-aborted"
    exit_code = 11


class IrreversibleMigrationError(MigronautError):
    """The migration has no way back."""

    code = "irreversible"
    exit_code = 13


class TransactionsUnsupportedError(MigronautError):
    """Transactions were asked for on a server that has none."""

    code = "transactions-unsupported"
    exit_code = 15


class MigrationExistsError(MigronautError):
    """A file that should be created is there already."""

    code = "file-exists"
    exit_code = 16


class InvalidNameError(MigronautError):
    """A migration name is not a bare file name."""

    code = "invalid-name"
    exit_code = 19


class InvalidMigrationError(MigronautError):
    """A migration file cannot be used as it is written."""

    code = "invalid-migration"
    exit_code = 20


class TransformError(InvalidMigrationError):
    """A migration's own function broke its contract for a whole slice, not for one document."""

    code = "invalid-transform"


class QueueJobInvalidError(MigronautError):
    """A job's payload is not one of ours; nothing was run."""

    code = "queue-job-invalid"
    exit_code = 25


class BackgroundPendingError(MigronautError):
    """A background migration that must be completed first is not."""

    code = "background-pending"
    exit_code = 31


class DriftFoundError(MigronautError):
    """Documents of the old shape exist after their migration completed."""

    code = "drift-found"
    exit_code = 31


class BackgroundFailedError(MigronautError):
    """A background migration failed; its state says why."""

    code = "background-failed"
    exit_code = 32


class BackgroundConflictError(MigronautError):
    """The background migration is in a status that does not allow the action."""

    code = "background-conflict"
    exit_code = 33


class StateInvalidError(MigronautError):
    """A record of ours in the database is not one that this release wrote."""

    code = "state-invalid"


class EmbeddedServerError(MigronautError):
    """A server for the demo or for tests is not installed, or did not start."""

    code = "embedded-server"


_CREDENTIALS = re.compile(r"://[^\n]*@")
_QUOTED_VALUES = (
    re.compile(r"dup key: \{.*", re.DOTALL),
    re.compile(r"(?<=full error: ).*", re.DOTALL),
)
_TEXT_LIMIT = 300
_OUR_CODE = f"{Path(__file__).parent}/"


def describe(error: BaseException, *, within: str | None = None) -> str:
    """What may be told of an error outside the process.

    Our own texts are written for that. Any other may quote a document, so its kind and its place in
    the code must do.

    Args:
        within: The path of a source file: its innermost line is the place, if it has one in the trace.
    """
    if isinstance(error, MigronautError) or getattr(error, "shareable", False):
        return redact(error) or type(error).__name__
    frames = list(traceback.walk_tb(error.__traceback__))
    place = [each for each in frames if each[0].f_code.co_filename == within][-1:] or frames[-1:]
    where = "".join(f" at line {line} of {frame.f_code.co_name}()" for frame, line in place)
    return redact(f"{type(error).__name__}{where}")


def frames(error: BaseException) -> str:
    """Where in code that is not ours something was raised, for whoever runs that code: places, and no values.

    Returns:
        Several lines: the class of the error and its frames, the outermost first; then those of what it came from.
    """
    lines: list[str] = []
    known: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in known:
        known.add(id(found))
        lines.append(f"{'from ' if lines else ''}{type(found).__name__}")
        places = traceback.extract_tb(found.__traceback__)
        theirs = (place for place in places if not place.filename.startswith(_OUR_CODE))
        lines += [redact(f"{each.filename}:{each.lineno} in {each.name}(): {each.line}") for each in theirs]
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return "\n".join(lines)


def without_credentials(text: str) -> str:
    """A text in which no URI shows a user name or a password; one with a blank is no URI, and gone all the same."""
    return _CREDENTIALS.sub("://***@", text)


def redact(text: object) -> str:
    """Make an error text fit to leave the process.

    Removes credentials in URIs and the values that server errors quote, keeps one line of at most
    300 characters.
    """
    clean = without_credentials(str(text))
    for pattern in _QUOTED_VALUES:
        clean = pattern.sub("(values left out)", clean)
    clean = " ".join(clean.split())
    return clean if len(clean) <= _TEXT_LIMIT else clean[: _TEXT_LIMIT - 1] + "…"
