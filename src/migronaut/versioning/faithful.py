"""Whether what an update overwrites was read as it is stored.

Some BSON does not survive the way through Python: a name that is there twice (the last one wins), a symbol (becomes
text), undefined (becomes null), the flags of a regular expression. Where such a value is left alone nothing happens
to it: an update names only fields that differ. A field that the update names goes through Python, so it must be the
same there and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import bson
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from migronaut.versioning.codec import CODEC, DocumentInvalidError
from migronaut.versioning.elements import document, elements

_EXACT = frozenset({int, Int64, bool, float, ObjectId, Timestamp, Decimal128, datetime})
"""Types that one type of BSON alone is read as, and written as again."""
_TEXT = b"\x02"
_MANY_NAMES = 4096


def check_faithful(raw: bytes, original: Mapping[str, Any], update: Mapping[str, Mapping[str, Any]]) -> None:
    """Make sure that an update overwrites nothing that reading has changed.

    Args:
        raw: The document as stored.
        original: The same, decoded with ``CODEC``.
        update: The operators of the update, each with its fields.

    Raises:
        DocumentInvalidError: ``not-faithful``.
    """
    for fields in update.values():
        for name in fields:
            if name in original and not _is_faithful(raw, name, original[name]):
                raise DocumentInvalidError(
                    "not-faithful",
                    "A field that the migration changes holds BSON that reading does not keep (a name twice, a symbol, "
                    "undefined, flags of a regular expression): correct the document, or change it by a pipeline.",
                )


def _is_faithful(raw: bytes, name: str, value: object) -> bool:
    stored_name = _stored(name)
    if raw.count(stored_name) != 1:
        return _is_faithful_among(raw, name, value)
    # The name is there once, so any element with it is the one.
    kind = type(value)
    if kind in _EXACT:
        return True
    if kind is str:
        return _TEXT + stored_name in raw
    return _element(name, value) in raw


def _is_faithful_among(raw: bytes, name: str, value: object) -> bool:
    """The slow way, where the bytes of the name occur elsewhere too: in a text, say, or in another name."""
    wanted = name.encode()
    found = [element for stored, element in elements(raw) if stored == wanted]
    return found == [_element(name, value)]


def _element(name: str, value: object) -> bytes:
    return bson.encode({name: value}, codec_options=CODEC)[4:-1]


@lru_cache(maxsize=_MANY_NAMES)
def _stored(name: str) -> bytes:
    return name.encode() + b"\0"


def id_of_raw(raw: bytes) -> Any:
    """The ``_id`` of a document as stored, whatever the rest of it is.

    Raises:
        BSONError, ValueError: The ``_id`` itself cannot be decoded.
    """
    (element,) = [element for name, element in elements(raw) if name == b"_id"][:1]
    return bson.decode(document(element), CODEC)["_id"]
