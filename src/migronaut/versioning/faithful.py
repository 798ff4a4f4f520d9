"""Whether what an update overwrites, and the ``_id`` that it goes by, were read as they are stored.

Some BSON does not survive the way through Python: a name that is there twice (the last one wins), a symbol (becomes
text), undefined (becomes null), a DBPointer, the flags of a regular expression. Where such a value is left alone
nothing happens to it: an update names only fields that differ. A field that the update names goes through Python, so
it must be the same there and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bson
from bson.errors import BSONError

from migronaut.versioning.codec import CODEC, DocumentInvalidError, IdInvalidError
from migronaut.versioning.elements import document, elements

_SYMBOL, _TEXT, _CONTAINERS = 0x0E, 0x02, (0x03, 0x04)
_EXACT_IDS = frozenset({0x01, _TEXT, 0x07, 0x08, 0x09, 0x0A, _SYMBOL, 0x10, 0x11, 0x12, 0x13, 0x7F, 0xFF})
"""Types of which an ``_id`` that can be decoded is found by what it was decoded to."""
_TYPE = 4
"""Where a document has the type of its first element."""


def check_faithful(raw: bytes, original: Mapping[str, Any], update: Mapping[str, Mapping[str, Any]]) -> None:
    """Make sure that an update finds its document, and overwrites nothing that reading has changed.

    Args:
        raw: The document as stored.
        original: The same, decoded with ``CODEC``.
        update: The operators of the update, each with its fields.

    Raises:
        DocumentInvalidError: ``not-faithful``.
        IdInvalidError: It would not find the document.
    """
    # Most documents are the same there and back, and to see that in one go costs less than to look for a field.
    if _encoded(original) == raw:
        return
    stored: dict[bytes, list[bytes]] = {}
    for stored_name, element in elements(raw):
        stored.setdefault(stored_name, []).append(element)
    _check_id(stored[b"_id"][0], original["_id"])
    for fields in update.values():
        for name in fields:
            if name in original and stored[name.encode()] != [_element(name, original[name])]:
                raise DocumentInvalidError(
                    "not-faithful",
                    "A field that the migration changes holds BSON that reading does not keep (a name twice, a symbol, "
                    "undefined, flags of a regular expression): correct the document, or change it by a pipeline.",
                )


def check_ids(raws: Sequence[bytes]) -> None:
    """Make sure that documents are found by their ids as Python has them.

    Args:
        raws: Documents that hold nothing but an ``_id``.

    Raises:
        IdInvalidError: One would not be found.
    """
    try:
        decoded = bson.decode_all(b"".join(raws), CODEC)
    except (BSONError, ValueError):
        raise IdInvalidError from None
    for raw, original in zip(raws, decoded, strict=True):
        if raw[_TYPE] not in _EXACT_IDS and _encoded(original) != raw:
            _check_id(raw[_TYPE:-1], original["_id"])


def id_of_raw(raw: bytes) -> Any:
    """The ``_id`` of a document as stored, whatever the rest of it is.

    Raises:
        IdInvalidError: The ``_id`` itself cannot be decoded, or would not be found by what it is decoded to.
    """
    element = next(element for name, element in elements(raw) if name == b"_id")
    check_ids([document(element)])
    return bson.decode(document(element), CODEC)["_id"]


def fields_of_raw(raw: bytes, *names: str) -> dict[str, Any]:
    """Some top-level fields of a document as stored, whatever the rest of it is.

    Raises:
        BSONError, ValueError: One of them cannot be decoded.
    """
    wanted = {name.encode() for name in names}
    return bson.decode(document(*(element for name, element in elements(raw) if name in wanted)), CODEC)


def _check_id(element: bytes, id_: object) -> None:
    if _without_symbols(element) != _without_symbols(_element("_id", id_)):
        raise IdInvalidError


def _without_symbols(element: bytes) -> bytes:
    """The element with texts for symbols: to the server a symbol and its text are one ``_id``."""
    kind, value = element[0], element.index(0, 1) + 1
    if kind == _SYMBOL:
        return bytes([_TEXT]) + element[1:]
    if kind in _CONTAINERS:
        return element[:value] + document(*(_without_symbols(inner) for _, inner in elements(element[value:])))
    return element


def _element(name: str, value: object) -> bytes:
    return _encoded({name: value})[4:-1]


def _encoded(document: Mapping[str, Any]) -> bytes:
    return bson.encode(document, codec_options=CODEC)
