"""Documents as the bytes they arrived in."""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack_from
from typing import Any


def replies(cursor: Iterable[Any]) -> Iterable[bytes]:
    """The replies of a raw cursor, which the driver declares as decoded documents."""
    return cursor


def split(reply: bytes) -> list[bytes]:
    """The documents of concatenated BSON, in order."""
    position, end = 0, len(reply)
    documents = []
    while position < end:
        following = position + unpack_from("<i", reply, position)[0]
        documents.append(reply[position:following])
        position = following
    return documents
