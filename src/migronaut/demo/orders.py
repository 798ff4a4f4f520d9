"""The orders of an imaginary shop, the same ones every time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from pymongo.database import Database

COLLECTION = "orders"
FIRST_ID = 1
FIRST_REVISION = 1

_SEED = 20_260_101
_BATCH = 2_000
_OPENED = datetime(2026, 1, 1, 8, tzinfo=UTC)
_NAMES = ("Ada Berg", "Ben Costa", "Chloé Dupont", "Dana Eklund", "Emre Falk", "Fatima Groß", "Goran Hill", "Hana Ito")
_CITIES = (
    ("10115", "Berlin", "DE"),
    ("1000-001", "Lisboa", "PT"),
    ("75001", "Paris", "FR"),
    ("111 29", "Stockholm", "SE"),
)
_STREETS = ("Gartenstraße", "Rua do Sol", "Rue des Lilas", "Storgatan", "Mill Lane")
_GOODS = (
    ("KB-104", "Keyboard, quiet"),
    ("MS-220", "Mouse, left-handed"),
    ("LP-007", "Desk lamp"),
    ("CB-015", "Cable, 2 m"),
)


def orders(count: int) -> Iterator[dict[str, Any]]:
    """Make ``count`` orders of about 500 bytes, in shape version 1, with the ids 1 to ``count``."""
    draw = random.Random(_SEED)
    for number in range(FIRST_ID, FIRST_ID + count):
        yield _order(number, draw)


def seed(db: Database[Any], count: int) -> None:
    """Write ``count`` orders, and the index on their version that makes counting what is left cheap."""
    collection = db[COLLECTION]
    left = orders(count)
    while batch := list(islice(left, _BATCH)):
        collection.insert_many(batch, ordered=False)
    collection.create_index("schema_version")


def _order(number: int, draw: random.Random) -> dict[str, Any]:
    zip_code, city, country = draw.choice(_CITIES)
    return {
        "_id": number,
        "schema_version": 1,
        "rev": FIRST_REVISION,
        "customer": {"id": draw.randrange(10_000), "name": draw.choice(_NAMES), "newsletter": draw.random() < 0.3},
        "address": {
            "street": f"{draw.choice(_STREETS)} {draw.randrange(1, 200)}",
            "zip": zip_code,
            "city": city,
            "country": country,
        },
        "delivery": draw.choice(("standard", "express", "pick-up")),
        "items": [_item(goods, draw) for goods in draw.sample(_GOODS, k=2)],
        "status": "new",
        "edits": 0,
        "ordered_at": _OPENED + timedelta(seconds=37 * number),
        "note": "Please ring twice; the bell of the front door is broken." if draw.random() < 0.5 else "",
    }


def _item(goods: tuple[str, str], draw: random.Random) -> dict[str, Any]:
    sku, name = goods
    return {"sku": sku, "name": name, "quantity": draw.randrange(1, 5), "price": draw.randrange(399, 19_999) / 100}
