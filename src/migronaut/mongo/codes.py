"""What an error code of the server means for us: one table, for every path; names as MongoDB gives them.

A code that is not named is ``Meaning.OTHER``: a refusal that says nothing against a document and does not pass by
itself, so the slice fails with it, and after a few of them the migration, with the code as the reason. Only of an
update by a pipeline ``meaning_of_pipeline_error`` takes what is not named as said of a document: its expressions have
codes of their own without end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto

from migronaut.core.ports import WriteRefusedError


class Meaning(Enum):
    """What to do about an error of the server."""

    DOCUMENT = auto()
    """The result of one document is refused."""
    DOCUMENT_SIZE = auto()
    """The result of one document is too large."""
    SHARD_KEY = auto()
    """The result of one document has another shard key, which a migration must leave as it is."""
    TOO_MUCH = auto()
    """More than one command or transaction may hold: try with less."""
    TOO_SLOW = auto()
    """It took too long: try with less."""
    CONFLICT = auto()
    """Somebody else was faster: try again at once."""
    OUTAGE = auto()
    """It passes without us: wait, and try the whole batch again; after a minute it counts as a failure."""
    DENIED = auto()
    """The login or a permission is missing."""
    OTHER = auto()
    """Anything else."""


_VALIDATION, _DUPLICATE = 121, 11000
_OF_AN_INDEX = frozenset({171, 13026, 13027, 13067, 13068, 16755, 16766, 16804, 17261, 17262, 17280})
"""CannotBuildIndexKeys, and values that an index cannot take: parallel arrays, a place that is none, an array to hash,
an unknown language."""
_UNIQUE_INDEX = re.compile(r" index: (?P<name>.+?)(?: collation: \{.*?\})? dup key: ")

_CODES: Mapping[Meaning, frozenset[int]] = {
    # Overflow (of nesting), ImmutableField, InvalidOptions.
    Meaning.DOCUMENT: frozenset({15, 66, 72, _VALIDATION, _DUPLICATE}) | _OF_AN_INDEX,
    # BSONObjectTooLarge, and an update that would grow a document past the limit.
    Meaning.DOCUMENT_SIZE: frozenset({10334, 17419}),
    # WouldChangeOwningShard; an update of a shard key that does not name it, or not in a retryable write.
    Meaning.SHARD_KEY: frozenset({283, 31025, 31156}),
    # ExceededMemoryLimit, TransactionTooLarge, QueryExceededMemoryLimitNoDiskUseAllowed, and two of the cache.
    Meaning.TOO_MUCH: frozenset({146, 257, 292, 334, 388}),
    # MaxTimeMSExpired, ExceededTimeLimit, TransactionExceededLifetimeLimitSeconds.
    Meaning.TOO_SLOW: frozenset({50, 262, 290}),
    # LockTimeout, LockBusy, WriteConflict, TransactionTooOld, NoSuchTransaction, PreparedTransactionInProgress.
    Meaning.CONFLICT: frozenset({24, 46, 112, 225, 251, 267}),
    Meaning.OUTAGE: frozenset(
        {
            # Network, elections, shutdown: HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress,
            # PrimarySteppedDown, NetworkInterfaceExceededTimeLimit, SocketException, NotWritablePrimary,
            # Interrupted…, NotPrimary….
            *(6, 7, 89, 91, 189, 202, 282, 317, 384, 9001, 10107, 11600, 11602, 13435, 13436),
            # Members that are late or away: WriteConcernFailed, FailedToSatisfyReadPreference,
            # ReadConcernMajorityNotAvailableYet.
            *(64, 133, 134),
            # What somebody does to the server meanwhile: CursorNotFound, CappedPositionLost, QueryPlanKilled,
            # CursorKilled, ClientMarkedKilled, Interrupted (killOp); a catalog that was changed after the snapshot
            # was taken: SnapshotUnavailable.
            *(43, 136, 175, 237, 246, 279, 11601),
            # A server at its limits: TemporarilyUnavailable, OutOfDiskSpace, and one for overload.
            *(365, 371, 14031),
            # Routing that is out of date: StaleShardVersion, StaleEpoch, StaleDbVersion, StaleConfig.
            *(63, 150, 249, 13388),
        }
    ),
    # Unauthorized, AuthenticationFailed, AtlasError (authentication there).
    Meaning.DENIED: frozenset({13, 18, 8000}),
}
_MEANINGS = {code: meaning for meaning, codes in _CODES.items() for code in codes}

ABOUT_A_DOCUMENT = frozenset({Meaning.DOCUMENT, Meaning.DOCUMENT_SIZE, Meaning.SHARD_KEY})


def meaning_of(code: int | None) -> Meaning:
    """What a code means on every path but that of a pipeline's update."""
    return Meaning.OTHER if code is None else _MEANINGS.get(code, Meaning.OTHER)


def meaning_of_pipeline_error(code: int) -> Meaning:
    """What a code means that stopped an update by a pipeline, and was not said of its hint."""
    meaning = meaning_of(code)
    return Meaning.DOCUMENT if meaning is Meaning.OTHER else meaning


def refusal(code: int, text: str, index: int | None = None) -> WriteRefusedError:
    """The error for a document that the server refuses.

    Args:
        text: The server's, which quotes the document: no more than the name of an index is taken from it.
        index: Which write it was.
    """
    match meaning_of(code):
        case Meaning.DOCUMENT_SIZE:
            return WriteRefusedError(code, index, kind="too-large")
        case Meaning.SHARD_KEY:
            return WriteRefusedError(code, index, kind="shard-key")
        case _:
            return WriteRefusedError(code, index, by=_refused_by(code, text))


def _refused_by(code: int, text: str) -> str | None:
    if code == _VALIDATION:
        return "the validator of the collection"
    if code == _DUPLICATE:
        found = _UNIQUE_INDEX.search(text)
        return f"the unique index {found['name']!r}" if found else "a unique index"
    return "an index of the collection" if code in _OF_AN_INDEX else None
