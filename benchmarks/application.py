"""An application that writes single orders, one after the other, and notes how long each write took.

A program of its own, so that no lane shares its interpreter; it talks as ``lane`` does.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from pymongo import MongoClient

from benchmarks.lane import wait_for_go
from benchmarks.orders import DB, ORDERS, order_id

_THINKS = 0.005
"""Seconds between two writes."""


def main(uri: str, documents: str) -> None:
    """Write until stopped; tell the seconds that each write took."""
    chance = random.Random(int(documents))
    took: list[float] = []
    with MongoClient[Any](uri) as client:
        orders = client[DB].get_collection(ORDERS)
        orders.find_one()
        stop = wait_for_go()
        while stop is not None and not stop.is_set():
            which = {"_id": order_id(chance.randrange(int(documents)))}
            start = time.perf_counter()
            orders.update_one(which, {"$set": {"status": "sent"}, "$inc": {"revision": 1}})
            took.append(time.perf_counter() - start)
            time.sleep(_THINKS)
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
