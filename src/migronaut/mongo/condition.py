"""What a collection is, on its server, and whether its writes can be acknowledged as asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import OperationFailure, WTimeoutError
from pymongo.write_concern import WriteConcern

from migronaut.core.ports import Condition

_NEVER_MET = frozenset({2, 79, 100})
"""Codes for a write concern: not on a standalone server, an unknown mode, more members than there are."""
_ACKNOWLEDGED_WITHIN = 5000
"""Milliseconds to wait for the members when asking whether they could acknowledge at all."""


def condition(collection: Collection[Any], *, sharded: bool) -> Condition:
    """What the server has under that name now."""
    named = collection.database.list_collections(filter={"name": collection.name})
    found = next(iter(named), None)
    if found is None:
        return Condition(exists=False, sharded=sharded)
    capped = bool(found.get("options", {}).get("capped"))
    return Condition(kind=found["type"], capped=capped, sharded=sharded)


def acknowledges(collection: Collection[Any], write_concern: Mapping[str, Any]) -> bool:
    """Ask with a write that touches nothing whether this write concern could be met at all."""
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
