"""Whether a collection, on its server, can take the writes of a migration at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import OperationFailure, WTimeoutError
from pymongo.write_concern import WriteConcern

_NEVER_MET = frozenset({2, 79, 100})
"""Codes for a write concern: not on a standalone server, an unknown mode, more members than there are."""
_ACKNOWLEDGED_WITHIN = 5000
"""Milliseconds to wait for the members when asking whether they could acknowledge at all."""


def unfit(collection: Collection[Any], write_concern: Mapping[str, Any]) -> str | None:
    """Why it cannot, and what to do; None when it can."""
    named = collection.database.list_collections(filter={"name": collection.name})
    kind = next((found["type"] for found in named), "collection")
    if kind != "collection":
        return f"{collection.name} is a {kind}: give the name of a collection"
    if not _acknowledged(collection, write_concern):
        return (
            "its write_concern can never be met here: it asks for more members than there are, or for a mode that is "
            "not defined; correct it"
        )
    return None


def _acknowledged(collection: Collection[Any], write_concern: Mapping[str, Any]) -> bool:
    """Ask with a write that touches nothing."""
    asked = WriteConcern(**dict(write_concern) | {"wtimeout": _ACKNOWLEDGED_WITHIN})
    try:
        collection.with_options(write_concern=asked).update_one({"_id": {"$in": []}}, {"$unset": {"nothing": ""}})
    except WTimeoutError:
        return True  # late, but possible
    except OperationFailure as error:
        if error.code in _NEVER_MET:
            return False
        raise
    return True
