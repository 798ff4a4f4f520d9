"""All that a Redis keeps."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from contextlib import suppress

from redis import Redis


def everything(connection: Redis) -> Iterator[bytes]:
    """Names and values of all keys, unpacked where RQ packs them."""
    for key in connection.scan_iter():
        yield key
        for value in _values(connection, key):
            yield value
            with suppress(zlib.error):
                yield zlib.decompress(value)
            with suppress(ValueError, zlib.error):
                yield zlib.decompress(base64.b64decode(value, validate=True))


def _values(connection: Redis, key: bytes) -> list[bytes]:
    match connection.type(key):
        case b"hash":
            return [part for pair in connection.hgetall(key).items() for part in pair]
        case b"list":
            return list(connection.lrange(key, 0, -1))
        case b"set":
            return list(connection.smembers(key))
        case b"zset":
            return list(connection.zrange(key, 0, -1))
        case b"stream":
            return [part for _, fields in connection.xrange(key) for pair in fields.items() for part in pair]
        case _:
            return [connection.get(key) or b""]
