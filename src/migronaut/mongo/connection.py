"""Connecting to MongoDB, opening our own collections, and the driver's errors in the words of the ports."""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

import pymongo
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
)
from pymongo.read_concern import ReadConcern

from migronaut.core.ports import (
    ClosedError,
    PortError,
    UnavailableError,
    UnfitClientError,
    WriteConflictError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.errors import ConfigInvalidError, ConnectionFailedError, MigronautError, redact
from migronaut.mongo.codes import Meaning, meaning_of
from migronaut.mongo.options import require_options
from migronaut.versioning import CODEC

Records = Collection[dict[str, Any]]
"""A collection of our own records."""

CONNECT_TIMEOUT = 3.0

_logger = logging.getLogger("migronaut")

_NOT_PERMITTED = 13

_REFUSED_COMMAND = re.compile(r"not authorized on (?P<db>\S+) to execute command \{ (?P<command>\w+):")
_MAJORITY = WriteConcern(w="majority", j=True)
_LOCAL = ReadConcern("local")


def connect(uri: str, *, timeout: float = CONNECT_TIMEOUT) -> MongoClient[dict[str, Any]]:
    """A client whose server has answered.

    Args:
        uri: ``mongodb://…`` or ``mongodb+srv://…``.
        timeout: Seconds until the server must have answered, at most 3.

    Raises:
        ConfigInvalidError: The URI cannot be read.
        ConnectionFailedError: Nobody answers, or the server refuses us.
    """
    timeout = min(timeout, CONNECT_TIMEOUT)
    client = _client(uri, timeout)
    try:
        with pymongo.timeout(timeout):
            client.admin.command("ping")
    except PyMongoError as error:
        client.close()
        raise _not_connected(error) from None
    return client


def _client(uri: str, timeout: float) -> MongoClient[dict[str, Any]]:
    require_options(uri)
    limits = {"serverSelectionTimeoutMS": int(timeout * 1000), "connectTimeoutMS": int(timeout * 1000)}
    asked = uri.lower()
    own: dict[str, Any] = {name: value for name, value in limits.items() if name.lower() not in asked}
    try:
        with warnings.catch_warnings(record=True, action="always", category=UserWarning) as told:
            client: MongoClient[dict[str, Any]] = MongoClient(uri, **own)
    # The driver's text may quote a piece of the password, so it is left out.
    except (ConfigurationError, TypeError, ValueError):
        raise ConfigInvalidError(
            "The MongoDB URI cannot be used: it must look like mongodb://host:27017/ or mongodb+srv://host/ (a name "
            "that DNS knows), with options that go together, and with user name and password percent-encoded.",
            setting="uri",
        ) from None
    except OSError:
        raise ConfigInvalidError(
            "The MongoDB URI cannot be used: a file that it names holds no certificates; correct it.",
            setting="uri",
        ) from None
    for warning in told:  # a compressor whose library is not here
        _logger.warning("The MongoDB driver says: %s", redact(warning.message))
    return client


def _not_connected(error: PyMongoError) -> MigronautError:
    refused = _refusal(error)
    if refused is not None:
        return refused
    reason = redact(str(error).split(", Timeout:")[0])
    return ConnectionFailedError(f"MongoDB does not answer ({reason}). Is it running, and is the URI right?")


def _refusal(error: PyMongoError) -> ConnectionFailedError | None:
    """The error for a server that knows us not, or does not let us; None for anything else."""
    if not isinstance(error, OperationFailure):
        return None
    if meaning_of(error.code) is not Meaning.DENIED:
        return None
    if error.code != _NOT_PERMITTED:
        return ConnectionFailedError(
            "MongoDB refused the login: check the user name, the password and authSource in the URI."
        )
    # The rest of the server's text quotes the whole command, and with it documents.
    found = _REFUSED_COMMAND.search(str(error))
    what = f" to run {found['command']!r} on the database {found['db']!r}" if found else ""
    return ConnectionFailedError(
        f"MongoDB refused a command: no permission{what}. Log in, or grant the user readWrite on that database."
    )


class translating(ContextDecorator):  # noqa: N801 - read as a verb, like contextlib's own
    """Turn errors of the driver into those of the ports; a context manager and a decorator.

    Raises:
        UnavailableError: No primary answers for now.
        ClosedError, UnfitClientError: The client was closed, or cannot do it.
        WriteTooSlowError, WriteTooLargeError: It took too long, or too much memory.
        WriteConflictError: A transaction, or a write, met another one.
        ConnectionFailedError: The login is refused, or permission is missing.
        PortError: Anything else the server refused; its text is redacted.
    """

    def __enter__(self) -> translating:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, PyMongoError):
            raise _translated(error) from None
        if isinstance(error, DocumentTooLarge):  # no PyMongoError: it comes from the encoder
            raise WriteTooLargeError("more than one message takes") from None


def _translated(error: PyMongoError) -> Exception:
    if isinstance(error, ConnectionFailure):
        return UnavailableError(redact(error))
    if isinstance(error, InvalidOperation):
        return _misused(error)
    code = error.code if isinstance(error, OperationFailure) else None
    # The server's own text may quote the query, and with it an id.
    name = (error.details or {}).get("codeName") if isinstance(error, OperationFailure) else None
    told = f"server error {code} ({name})" if name else f"server error {code}" if code else type(error).__name__
    match meaning_of(code):
        case Meaning.OUTAGE:
            return UnavailableError(told)
        case Meaning.TOO_SLOW:
            return WriteTooSlowError(told)
        case Meaning.TOO_MUCH | Meaning.DOCUMENT_SIZE:
            return WriteTooLargeError(told)
        case Meaning.CONFLICT:
            return WriteConflictError(told)
        case Meaning.OTHER if error.has_error_label("TransientTransactionError"):
            # The server says that it passes; should it not, an outage ends as a failure, where conflicts would go on
            # and on.
            return UnavailableError(told)
    return _refusal(error) or PortError(told)


def _misused(error: InvalidOperation) -> PortError:
    """What the driver refuses by itself: only one of its reasons is a closed client."""
    told = redact(error)
    if "after close" in told:
        return ClosedError("the client was closed")
    return UnfitClientError(told)


def collections(db: Database[Any], *names: str) -> tuple[Records, ...]:
    """Our own collections: read from the primary, written with majority and journal, whatever the client is set to."""
    return tuple(
        db.get_collection(
            name,
            codec_options=CODEC,
            read_preference=ReadPreference.PRIMARY,
            write_concern=_MAJORITY,
            read_concern=_LOCAL,
        )
        for name in names
    )
