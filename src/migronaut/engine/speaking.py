"""What ports say, put into words that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migronaut.core.ports import ClosedError, PortError
from migronaut.errors import ConnectionFailedError, UsageError, redact


@contextmanager
def speaking() -> Iterator[None]:
    """Turn an error of a port into one for users.

    Raises:
        ConnectionFailedError: The database did not answer.
        UsageError: The client was closed, so that no database can answer.
    """
    try:
        yield
    except ClosedError as error:
        raise UsageError(
            "The MongoDB client was closed, so that nothing can be asked of it; make a Migrator with an open one."
        ) from error
    except PortError as error:
        raise ConnectionFailedError(
            f"MongoDB did not answer ({redact(error) or type(error).__name__}); nothing is lost: "
            "try again when it does."
        ) from error
