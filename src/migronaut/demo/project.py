"""The demo's project: a directory with one migration file, paced so that one can watch."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from migronaut.demo.options import QueueKind
from migronaut.demo.orders import COLLECTION

NAME = "20260101090000_orders_get_shipping_and_cents.py"
TO_VERSION = 2
REVISION_FIELD = "rev"

_BATCHES = 150
"""So many batches can be watched; a machine that is not slowed down would be through before anybody looked."""

_SLOWED = 50_000
_LARGEST_BATCH = 500

_HEAD = '''\
"""Orders keep where they go under shipping, and prices as whole cents."""

from migronaut import Background
'''

_FUNCTION = """

def migrate(order):
    order["shipping"] = {
        "address": order.pop("address"),
        "method": order.pop("delivery"),
    }
    for item in order["items"]:
        item["cents"] = round(item.pop("price") * 100)
    order["total"] = sum(i["cents"] * i["quantity"] for i in order["items"])
    return order

"""

_PIPELINE = """
cents = {"$toInt": {"$round": {"$multiply": ["$$item.price", 100]}}}
item = {
    "sku": "$$item.sku",
    "name": "$$item.name",
    "quantity": "$$item.quantity",
    "cents": cents,
}
amount = {"$multiply": ["$$item.cents", "$$item.quantity"]}
pipeline = [
    {
        "$set": {
            "shipping": {"address": "$address", "method": "$delivery"},
            "items": {"$map": {"input": "$items", "as": "item", "in": item}},
        }
    },
    {"$set": {"total": {"$sum": {"$map": {"input": "$items", "as": "item", "in": amount}}}}},
    {"$unset": ["address", "delivery"]},
]
"""

_DECLARATION = """
background = Background(
    collection="{collection}",
    from_version=1,
    to_version={to_version},
    {way}={way},
    revision_field="{revision_field}",  # each writer of an order adds 1 to it
    batch_size={batch_size},
    pause={pause},
    slice_length=2,
    max_parallel={lanes},
)
"""


@frozen(kw_only=True)
class Pace:
    """How the work is cut.

    Args:
        lanes: All of them together, in two worker processes.
        pause: Seconds after each batch of a lane.
    """

    lanes: int
    batch_size: int
    pause: float


def pace_of(documents: int, queue: QueueKind) -> Pace:
    """Choose a pace at which the default number of documents takes about half a minute, and fewer not much less.

    An RQ worker does one job at a time, so two of them are two lanes, which pause half as long.
    """
    lanes, pause = (2, 0.1) if queue is QueueKind.RQ else (4, 0.2)
    batch_size = max(1, min(_LARGEST_BATCH, documents // _BATCHES))
    return Pace(lanes=lanes, batch_size=batch_size, pause=round(pause * min(1.0, _SLOWED / documents), 4))


def write_migration(directory: Path, pace: Pace, *, pipeline: bool) -> str:
    """Write the migration file, by a function or by a pipeline, and return its text."""
    declaration = _DECLARATION.format(
        collection=COLLECTION,
        to_version=TO_VERSION,
        way="pipeline" if pipeline else "migrate",
        revision_field=REVISION_FIELD,
        batch_size=pace.batch_size,
        pause=pace.pause,
        lanes=pace.lanes,
    )
    text = _HEAD + (_PIPELINE if pipeline else _FUNCTION) + declaration
    directory.mkdir()
    (directory / NAME).write_text(text, encoding="utf-8")
    return text
