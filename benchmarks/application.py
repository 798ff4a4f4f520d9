"""An application that writes single orders, one after the other, and notes how long each write took.

A program of its own, so that no lane shares its interpreter; it talks as ``lane`` does.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from bson import ObjectId
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from benchmarks.lane import wait_for_go
from benchmarks.orders import DB, ORDERS, order_id

_THINKS = 0.005
"""Seconds between two writes."""

_Write = Callable[[Collection[Any], ObjectId, str], bool]
"""Writes one order; whether it was found."""


def send(orders: Collection[Any], which: ObjectId, text: str) -> bool:
    """What a migration has nothing to do with."""
    change = {"$set": {"status": text}, "$inc": {"revision": 1}}
    return orders.update_one({"_id": which}, change).matched_count == 1


def move(orders: Collection[Any], which: ObjectId, street: str) -> bool:
    """The field that is migrated, in the shape that is there, and one that is not: it must know both shapes."""
    for version, place in ((1, "address"), (2, "shipping.address")):
        change = {"$set": {f"{place}.street": street}, "$inc": {"items.0.quantity": 1, "revision": 1}}
        if orders.update_one({"_id": which, "schema_version": version}, change).matched_count:
            return True
    return False


WRITES: dict[str, _Write] = {"send": send, "move": move}


def main(uri: str, documents: str, write: str) -> None:
    """Write until stopped; tell of each write which order, what, how many seconds it took, and whether it was made."""
    chance = random.Random(int(documents))
    told: list[tuple[int, str, float, bool]] = []
    with MongoClient[Any](uri) as client:
        orders = client[DB].get_collection(ORDERS)
        orders.find_one()
        stop = wait_for_go()
        while stop is not None and not stop.is_set():
            number, text = chance.randrange(int(documents)), f"written {len(told)}"
            start = time.perf_counter()
            try:
                made = WRITES[write](orders, order_id(number), text)
            except PyMongoError:
                made = False
            told.append((number, text, time.perf_counter() - start, made))
            time.sleep(_THINKS)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
