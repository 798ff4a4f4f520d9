"""What ports say, put into words that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migronaut.core.ports import ClosedError, PortError, UnfitClientError, WriteRefusedError, WriteTooLargeError
from migronaut.errors import ConnectionFailedError, MigronautError, ServerRefusedError, UsageError, redact


@contextmanager
def speaking() -> Iterator[None]:
    """Turn an error of a port into one for users.

    Raises:
        ConnectionFailedError: The database did not answer, or cannot do it for the moment.
        ServerRefusedError: It answered with an error that does not pass by itself.
        UsageError: The client was closed, so that no database can answer, or is of a kind that cannot ask it.
    """
    try:
        yield
    except PortError as error:
        raise spoken(error) from error


def lasting(error: PortError) -> bool:
    """Whether it would be the same when the same is asked again."""
    return type(error) is PortError or isinstance(error, UnfitClientError | WriteRefusedError | WriteTooLargeError)


def spoken(error: PortError) -> MigronautError:
    """The error for users; ``speaking`` says which."""
    if isinstance(error, ClosedError):
        return UsageError(
            "The MongoDB client was closed, so that nothing can be asked of it; make a Migrator with an open one."
        )
    told = redact(error) or type(error).__name__
    if isinstance(error, UnfitClientError):
        return UsageError(
            f"The MongoDB driver refuses this client ({told}); give migronaut a client of its own, or a uri."
        )
    if not lasting(error):
        return ConnectionFailedError(f"MongoDB is not available now ({told}); nothing is lost: try again when it is.")
    return ServerRefusedError(
        f"MongoDB refused what it was asked to do ({told}); nothing is lost. Look at the server's settings and its log "
        "for the reason, then try again."
    )
