"""What ports say, put into words that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migronaut.core.ports import PortError
from migronaut.errors import ConnectionFailedError, redact


@contextmanager
def speaking() -> Iterator[None]:
    """Turn an error of a port into one for users.

    Raises:
        ConnectionFailedError: The database did not answer.
    """
    try:
        yield
    except PortError as error:
        raise ConnectionFailedError(
            f"MongoDB did not answer ({redact(error) or type(error).__name__}); nothing is lost: "
            "try again when it does."
        ) from error
