"""How documents are read and written, and what may be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import bson
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion

CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict,
    tz_aware=False,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
"""How documents are read and written, whatever the client of the user is set to."""

InvalidKind = Literal[
    "invalid-version", "not-a-mapping", "id-changed", "bad-key", "not-encodable", "not-faithful", "unchanged"
]


class DocumentInvalidError(Exception):
    """One document cannot be migrated; the others can. Its message holds no id and no content.

    Args:
        kind: What is wrong, a stable word for machines.
        message: One sentence: what is wrong and what to do.
    """

    def __init__(self, kind: InvalidKind, message: str) -> None:
        super().__init__(message)
        self.kind: InvalidKind = kind
        self.message = message


class IdInvalidError(Exception):
    """A document cannot be named: its ``_id`` cannot be decoded, or nothing is found by what it is decoded to."""

    shareable = True

    def __init__(self) -> None:
        super().__init__(
            "A document has an _id that is not valid BSON, or that reading does not keep (undefined, a name twice), so "
            "that nothing can be done by its _id: insert it under another one, delete this one, and retry."
        )


def encoded(doc: Mapping[str, Any]) -> bytes:
    """A document as BSON.

    Raises:
        DocumentInvalidError: ``not-encodable``: it holds a value that is no BSON.
    """
    try:
        return bson.encode(doc, codec_options=CODEC)
    # A value of the user's may raise anything. The cause quotes the value, so it is cut off.
    except Exception:
        raise DocumentInvalidError(
            "not-encodable", "The result holds a value that BSON cannot store: return plain BSON types."
        ) from None
