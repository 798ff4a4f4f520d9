"""States of background migrations, and the clocks of the cluster."""

from __future__ import annotations

from datetime import datetime
from typing import cast
from uuid import uuid4

from pymongo import ReadPreference, ReturnDocument
from pymongo.errors import DuplicateKeyError

from migronaut.core.state import SCHEMA, BackgroundState
from migronaut.errors import BackgroundConflictError
from migronaut.mongo.codec import state_from, to_document
from migronaut.mongo.connection import translating
from migronaut.mongo.records import StoreRecords
from migronaut.versioning import CODEC

_LONG_AGO = datetime(1970, 1, 1)  # noqa: DTZ001 - the server's times are naive UTC


class States(StoreRecords):
    """One document a migration, its ``_id`` is the name; every write is a compare-and-set on the revision."""

    @translating()
    def now(self) -> datetime:
        """The server's time, UTC and naive, in milliseconds."""
        answer = self._db.command("hello", codec_options=CODEC, read_preference=ReadPreference.PRIMARY)
        return cast(datetime, answer["localTime"])

    @translating()
    def load(self, name: str) -> BackgroundState | None:
        """The state of one migration.

        Raises:
            StateInvalidError: The record is damaged.
        """
        doc = self._states.find_one({"_id": name})
        return None if doc is None else state_from(doc)

    @translating()
    def states(self) -> tuple[BackgroundState, ...]:
        """All states, in the order of their names.

        Raises:
            StateInvalidError: A record is damaged.
        """
        return tuple(state_from(doc) for doc in self._states.find().sort("_id"))

    @translating()
    def insert(self, state: BackgroundState) -> bool:
        """Store a new state; False when one of that name exists."""
        self._prepare()
        try:
            self._states.insert_one(to_document(state))
        except DuplicateKeyError:
            return False
        return True

    @translating()
    def save(self, state: BackgroundState) -> BackgroundState | None:
        """Compare-and-set on ``state.revision``; ``updated_at`` becomes the server's time.

        Returns:
            The state as stored (revision + 1), or None when somebody else wrote meanwhile.

        Raises:
            BackgroundConflictError: A newer release wrote the state; this one would lose what it does not know.
        """
        if state.schema > SCHEMA:
            raise BackgroundConflictError(
                "The background migration belongs to a newer release of migronaut: use that release to change it.",
                schema=state.schema,
            )
        self._prepare()
        doc = to_document(state) | {"revision": state.revision + 1}
        # As a literal, because the filters of a spec hold operators.
        stored = self._states.find_one_and_update(
            {"_id": state.name, "revision": state.revision, "schema": {"$lte": SCHEMA}},
            [{"$replaceWith": {"$literal": doc}}, {"$set": {"updated_at": "$$NOW"}}],
            return_document=ReturnDocument.AFTER,
        )
        return None if stored is None else state_from(stored)


class Clocks(StoreRecords):
    """Who may beat: one caller an interval in the whole cluster."""

    @translating()
    def tick(self, clock: str, *, interval: float) -> bool:
        """True for one caller per ``interval`` seconds in the whole cluster."""
        nonce = uuid4().hex
        # The distance, not the age: a server clock that once stood far in the future must not stop the beat.
        distance = {"$abs": {"$subtract": ["$$NOW", {"$ifNull": ["$at", _LONG_AGO]}]}}
        due = {"$gte": [distance, interval * 1000]}
        try:
            doc = self._clocks.find_one_and_update(
                {"_id": clock},
                [{"$set": {"at": {"$cond": [due, "$$NOW", "$at"]}, "by": {"$cond": [due, nonce, "$by"]}}}],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return False
        return doc is not None and bool(doc["by"] == nonce)
