"""Updates by a pipeline: the server changes each document of a range where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.database import Database
from pymongo.errors import OperationFailure

from migronaut.core.ports import Stages, UnavailableError
from migronaut.errors import redact
from migronaut.mongo.codes import ABOUT_A_DOCUMENT, meaning_of_pipeline_error, refusal
from migronaut.mongo.hints import BY_ID, Hint, HintRefusedError, refused
from migronaut.mongo.raw import replies, split
from migronaut.versioning import CODEC

_AS_IT_IS: Stages = ({"$replaceWith": {"$mergeObjects": ["$$ROOT"]}},)
"""Changes nothing, but no $match is moved across it. MongoDB 6.0.5 moves ``{a: {$exists: false}}`` before
``{$set: {a: {b: "$c"}}}``, and even before a $limit behind it."""


class PipelineUpdates:
    """Pipelines on the documents of one collection; the driver's errors leave it as they are."""

    def __init__(self, db: Database[Any], collection: str) -> None:
        self._db = db
        self._collection = collection

    def rewrite(self, query: Mapping[str, Any], stages: Stages, *, hint: Hint, **options: Any) -> int:
        """Run the stages on all that matches; how many documents were changed.

        Args:
            hint: The index to go by.
            options: Of the command: ``writeConcern`` or ``session``, ``maxTimeMS``.

        Raises:
            HintRefusedError: Nothing was changed.
            WriteRefusedError: The server stopped at a document; it does not say at which, nor what it changed before.
        """
        statement = {"q": query, "u": stages, "multi": True, "hint": dict(hint)}
        try:
            reply = self._command(statement, **options)
        except OperationFailure as error:
            raise _fault(error.code or 0, str(error), hint) from None
        for each in reply.get("writeErrors", ()):
            raise _fault(each["code"], each["errmsg"], hint)
        if "writeConcernError" in reply:
            raise UnavailableError(f"write concern not met ({reply['writeConcernError'].get('code')})")
        return int(reply["nModified"])

    def still_matching(self, query: Mapping[str, Any], match: Mapping[str, Any], stages: Stages) -> tuple[bytes, ...]:
        """Run the stages on what a query finds, without writing; ids of the results that match."""
        pipeline = [{"$match": query}, *stages, *_AS_IT_IS, {"$match": match}, {"$project": {"_id": 1}}]
        try:
            with self._db[self._collection].aggregate_raw_batches(pipeline) as found:
                return tuple(raw for reply in replies(found) for raw in split(reply))
        except OperationFailure as error:
            if meaning_of_pipeline_error(error.code or 0) in ABOUT_A_DOCUMENT:
                return ()  # documents that the stages fail on are found when they are rewritten
            raise

    def refusal_of(self, stages: Stages) -> str | None:
        """Let the server read the stages in an update that finds nothing."""
        statement = {"q": {"_id": {"$in": []}}, "u": stages, "multi": True}
        reply = self._command(statement)
        return next((redact(each["errmsg"]) for each in reply.get("writeErrors", ())), None)

    def _command(self, statement: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
        # A command does not take over the codec of its database, and the driver's own encodes no UUID.
        return self._db.command("update", self._collection, updates=[statement], codec_options=CODEC, **options)


def _fault(code: int, text: str, hint: Hint) -> Exception:
    if hint != BY_ID and refused(code, text):
        return HintRefusedError()
    if meaning_of_pipeline_error(code) in ABOUT_A_DOCUMENT:
        return refusal(code, text)
    # Without the server's text, which may quote a document.
    return OperationFailure(f"The server stopped an update (code {code}).", code)
