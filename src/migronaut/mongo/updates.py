"""Raw update commands: statements that are encoded already, cut by what the server takes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import DocumentTooLarge, OperationFailure

from migronaut.core.ports import (
    GuardedResult,
    UnavailableError,
    Write,
    WriteConflictError,
    WriteRefusedError,
    WriteTooLargeError,
)
from migronaut.mongo.codes import ABOUT_A_DOCUMENT, meaning_of, refusal

_HEADROOM = 64 * 1024
"""Bytes of a command that are not statements."""
_ELEMENT = 8
"""Bytes that BSON adds to an element of an array: its type and its index as text."""
_RAW = DEFAULT_CODEC_OPTIONS.with_options(document_class=RawBSONDocument)


class UpdateCommands:
    """Sends the statements of writes to one collection; the driver's errors leave it as they are."""

    def __init__(self, db: Database[Any], collection: str) -> None:
        self._db = db
        self._collection = collection

    @cached_property
    def hello(self) -> Mapping[str, Any]:
        """What the server is and how much it takes, asked once."""
        return self._db.client.admin.command("hello")

    def ordered(self, writes: Sequence[Write], indexes: Sequence[int], session: ClientSession) -> None:
        """Inside a transaction: all of these writes, or an error.

        Raises:
            WriteRefusedError, WriteTooLargeError, WriteConflictError: The transaction is to be aborted.
        """
        for chunk in self._chunks(writes, indexes):
            reply = self._send(writes, chunk, session=session, ordered=True)
            for each in reply.get("writeErrors", ()):
                raise _fault(each["code"], each["errmsg"], chunk[each["index"]])
            if reply["n"] != len(chunk):
                raise WriteConflictError("an update by _id met no document")

    def unordered(self, writes: Sequence[Write], write_concern: Mapping[str, Any]) -> GuardedResult:
        """Each statement for itself.

        Raises:
            WriteTooLargeError, UnavailableError: Part of it may have been written.
        """
        matched = 0
        refused: dict[int, WriteRefusedError] = {}
        for chunk in self._chunks(writes, range(len(writes))):
            reply = self._send(writes, chunk, ordered=False, writeConcern=dict(write_concern))
            matched += reply["n"]
            for each in reply.get("writeErrors", ()):
                fault = _fault(each["code"], each["errmsg"], chunk[each["index"]])
                if not isinstance(fault, WriteRefusedError):
                    raise fault
                refused[chunk[each["index"]]] = fault
            if "writeConcernError" in reply:
                raise UnavailableError(f"write concern not met ({reply['writeConcernError'].get('code')})")
        return GuardedResult(matched=matched, refused=refused)

    def _chunks(self, writes: Sequence[Write], indexes: Iterable[int]) -> Iterable[list[int]]:
        most_bytes = min(self.hello["maxBsonObjectSize"], self.hello["maxMessageSizeBytes"]) - _HEADROOM
        chunk: list[int] = []
        size = 0
        for index in indexes:
            length = len(writes[index].statement) + _ELEMENT
            if chunk and (size + length > most_bytes or len(chunk) >= self.hello["maxWriteBatchSize"]):
                yield chunk
                chunk, size = [], 0
            chunk.append(index)
            size += length
        if chunk:
            yield chunk

    def _send(
        self, writes: Sequence[Write], chunk: Sequence[int], *, session: ClientSession | None = None, **options: Any
    ) -> Mapping[str, Any]:
        statements = [RawBSONDocument(writes[index].statement, _RAW) for index in chunk]
        command = {"update": self._collection, "updates": statements, **options}
        try:
            return self._db.command(command, session=session)
        except DocumentTooLarge:
            if len(chunk) > 1:
                raise WriteTooLargeError from None
            raise WriteRefusedError(10334, chunk[0], kind="too-large") from None
        except OperationFailure as error:
            if error.code is None or meaning_of(error.code) not in ABOUT_A_DOCUMENT:
                raise
            raise _fault(error.code, str(error), chunk[0] if len(chunk) == 1 else None) from None


def _fault(code: int, text: str, index: int | None) -> Exception:
    if meaning_of(code) in ABOUT_A_DOCUMENT:
        return refusal(code, text, index)
    return OperationFailure(f"The server refused an update (code {code}).", code)
