"""The changelog on MongoDB: what was applied, when, by whom; one record a migration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from attrs import fields, frozen
from pymongo import ASCENDING, DESCENDING
from pymongo.client_session import ClientSession
from pymongo.database import Database

from migronaut.core.names import name_problem
from migronaut.errors import redact
from migronaut.mongo.codec import converter, field_of
from migronaut.mongo.connection import collections, translating

_lenient = converter(strict=False)


class RecordStatus(StrEnum):
    """How the last run of a migration ended."""

    APPLIED = "applied"
    FAILED = "failed"


class RecordKind(StrEnum):
    """What a migration file is: an ordinary one, or a background migration that was registered."""

    NONE = "none"
    BACKGROUND = "background"


@frozen(kw_only=True)
class Entry:
    """What a run says about one migration.

    Args:
        duration: Seconds that the body took.
    """

    name: str
    batch: int
    checksum: str
    kind: RecordKind = RecordKind.NONE
    description: str = ""
    duration: float = 0.0
    environment: str | None = None
    run_id: str | None = None
    executed_by: str | None = None
    requested_by: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class Record(Entry):
    """One migration as the changelog has it. Times are the server's."""

    status: RecordStatus
    applied_at: datetime | None = None
    first_applied_at: datetime | None = None
    failed_at: datetime | None = None
    error: str | None = None


@frozen(kw_only=True)
class InvalidRecord:
    """A record that cannot be used, because it was tampered with or another tool wrote it.

    Args:
        problem: Which part is wrong; never its value.
    """

    problem: str


class MongoChangelog:
    """The changelog of one database.

    Args:
        db: Where it lives; its client may be set up in any way.
        collection: Its collection.
    """

    def __init__(self, db: Database[Any], *, collection: str = "_migronaut_migrations") -> None:
        (self._records,) = collections(db, collection)
        self._prepared = False

    @translating()
    def prepare(self) -> None:
        """Create the collection and its index: before a transaction, which could not see them made meanwhile."""
        if not self._prepared:
            self._records.create_index([("name", ASCENDING)], unique=True)
            self._prepared = True

    @translating()
    def records(self) -> tuple[Record | InvalidRecord, ...]:
        """All records in the order of their names."""
        return tuple(_record(doc) for doc in self._records.find().sort("name"))

    @translating()
    def next_batch(self) -> int:
        """One more than the highest number ever used, by failed runs too."""
        numbered = {"batch": {"$type": "number"}}
        # By _id, as a server with notablescan does not look through a collection without an index.
        last = self._records.find_one(numbered, {"batch": 1}, sort=[("batch", DESCENDING)], hint=[("_id", ASCENDING)])
        return 1 if last is None else int(last["batch"]) + 1

    @translating()
    def applied(self, entry: Entry, *, session: ClientSession | None = None) -> None:
        """Record a success; the traces of failures go, ``first_applied_at`` stays.

        Args:
            entry: What to record.
            session: Write inside this session's transaction; call ``prepare`` before it starts.
        """
        if session is None:
            self.prepare()
        first = {"$ifNull": ["$first_applied_at", "$$NOW"]}
        times = {"status": RecordStatus.APPLIED, "applied_at": "$$NOW", "first_applied_at": first}
        stages: list[dict[str, Any]] = [{"$set": _literals(entry) | times}, {"$unset": ["failed_at", "error"]}]
        self._records.update_one({"name": entry.name}, stages, upsert=True, session=session)

    @translating()
    def failed(self, entry: Entry, *, error: str) -> bool:
        """Record a failure; False, and nothing changed, where the migration is applied."""
        self.prepare()
        trace = {"status": RecordStatus.FAILED, "failed_at": "$$NOW", "error": {"$literal": redact(error)}}
        demoted = {"$eq": ["$status", RecordStatus.APPLIED]}
        record = {"$mergeObjects": ["$$ROOT", _literals(entry) | trace]}
        result = self._records.update_one(
            {"name": entry.name}, [{"$replaceWith": {"$cond": [demoted, "$$ROOT", record]}}], upsert=True
        )
        return result.upserted_id is not None or result.modified_count == 1


def _literals(entry: Entry) -> dict[str, Any]:
    told = {attribute.name: getattr(entry, attribute.name) for attribute in fields(Entry)}
    return {name: {"$literal": value} for name, value in told.items()}


def _record(doc: Mapping[str, Any]) -> Record | InvalidRecord:
    name = doc.get("name")
    if not isinstance(name, str) or name_problem(name):
        return InvalidRecord(problem="the name is not a bare file name")
    try:
        return _lenient.structure(dict(doc), Record)
    # A newer release may have added fields; what we know must be as we write it.
    except Exception as error:
        return InvalidRecord(problem=f"{field_of(error)} is not as this release writes it")
