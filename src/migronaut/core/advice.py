"""What to tell an operator of a migration that failed or stands still, and the way on."""

from __future__ import annotations

from collections.abc import Sequence

from migronaut.core.state import DocumentError, Status
from migronaut.core.wording import sentence

STILL_WRITTEN = "old-shape documents keep appearing"
"""How the reason begins when passes do not come to an end."""


def failure_text(name: str, reason: str | None, errors: Sequence[DocumentError]) -> str:
    """Why a migration failed, in sentences.

    Args:
        reason: Its ``last_error``.
        errors: Of documents; the latest is quoted.
    """
    why = f"{name} failed: {sentence(reason or 'no reason was kept')}"
    return f"{why} The latest of them: {sentence(errors[-1].message)}" if errors else why


def mending(name: str, reason: str | None) -> str:
    """The way on from a failure.

    Args:
        reason: The ``last_error`` of the migration.
    """
    if reason is not None and reason.startswith(STILL_WRITTEN):
        return f"make sure that no old release writes them any more, then `migronaut background retry {name}`"
    return (
        f"mend the file, then `migronaut background retry {name} --repin` (without --repin if the documents were "
        "mended)"
    )


_TAKING_UP = {
    Status.PAUSED: ("resume", "goes on with it"),
    Status.FAILED: ("retry", "goes on where it failed"),
    Status.CANCELLED: ("retry", "takes it up again"),
    Status.COMPLETED: ("retry", "looks for documents of the old shape once more"),
}


def taking_up(name: str, status: Status) -> str:
    """The command for a migration that nobody works as it stands, and what it does."""
    command, what = _TAKING_UP[status]
    return f"`migronaut background {command} {name}` {what}"
