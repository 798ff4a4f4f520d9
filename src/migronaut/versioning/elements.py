"""The elements of a BSON document as stored, without decoding their values."""

from __future__ import annotations

from collections.abc import Iterator

_FIXED = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
    0x7F: 0,
    0xFF: 0,
}
_AFTER_LENGTH = {0x02: 4, 0x03: 0, 0x04: 0, 0x05: 5, 0x0C: 16, 0x0D: 4, 0x0E: 4, 0x0F: 0}


def elements(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The top-level elements of a document in order: the name, and the whole element with its type and name as stored.

    A name that is there twice comes twice. Source: the BSON specification, version 1.1.
    """
    at = 4
    while raw[at]:
        start = at
        value = raw.index(0, start + 1) + 1
        at = value + _size(raw, raw[start], value)
        yield raw[start + 1 : value - 1], raw[start:at]


def document(*parts: bytes) -> bytes:
    """A document of these elements."""
    body = b"".join(parts)
    return (len(body) + 5).to_bytes(4, "little") + body + b"\0"


def _size(raw: bytes, kind: int, at: int) -> int:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _AFTER_LENGTH:
        return int.from_bytes(raw[at : at + 4], "little") + _AFTER_LENGTH[kind]
    # A regular expression: two texts that end with a zero byte each.
    return raw.index(0, raw.index(0, at) + 1) + 1 - at
