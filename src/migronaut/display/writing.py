"""When what is said cannot be written: the disk is full, or the reader of the pipe has gone."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console

from migronaut.errors import MigronautError

_WRITERS = ("click", "rich")


class OutputError(MigronautError):
    """Standard output takes nothing more."""


class Lines(Console):
    """A console that tells of a reader that has gone, where Rich would end the process without a word."""

    def on_broken_pipe(self) -> None:
        """Called where ``BrokenPipeError`` is being handled."""
        raise  # noqa: PLE0704 - the handled one


@contextmanager
def writing() -> Iterator[None]:
    """Turn what the system says of our own output into a sentence.

    Raises:
        OutputError: It could not be written; any other error passes as it is.
    """
    try:
        yield
    except OSError as error:
        *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
        if str(innermost.f_globals.get("__name__")).partition(".")[0] not in _WRITERS:
            raise
        _discard()
        raise OutputError(
            f"The output cannot be written ({error.strerror}); what was done before stays done."
        ) from error


def _discard() -> None:
    """Let what is still buffered go nowhere: Python would try to write it once more at its end, and complain."""
    with suppress(OSError, ValueError):  # there may be no such descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
