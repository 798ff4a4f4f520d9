"""mongomig's two ways, run by its own runner; without mongomig there are no such peers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.lane import uri_of
from benchmarks.orders import DB, Orders
from benchmarks.peers import Job

_HEAD = '''"""orders shipping

Revision: 20260101
"""

from pymongo import UpdateOne

revision = "20260101"
down_revision = None
branch_labels = None
depends_on = None
reversible = False
snapshot_hash = None
mongomig_format = 1


def upgrade(ctx):
'''

_LOOP = """
    orders = ctx.collection("orders")
    found = ctx.batches(
        "orders", {"schema_version": 1}, projection={"address": 1}, batch_size=1000, transactional=True
    )
    for batch in found:
        changes = [
            UpdateOne(
                {"_id": order["_id"]},
                {"$set": {"shipping": {"address": order["address"]}, "schema_version": 2}, "$unset": {"address": ""}},
            )
            for order in batch
        ]
        orders.bulk_write(changes, session=batch.session)
"""

_BACKFILL = """
    ctx.ops.backfill(
        "orders",
        {"schema_version": 1},
        [{"$set": {"shipping": {"address": "$address"}, "schema_version": 2}}, {"$unset": "address"}],
    )
"""


def has_mongomig() -> bool:
    """Whether mongomig is installed, as ``tox -e bench`` does."""
    return find_spec("mongomig") is not None


@contextmanager
def loop(orders: Orders) -> Iterator[Job]:
    """Its ``batches`` as its recipe for long migrations has them: only the field to be moved is read, and a bulk write
    of 1000 and the checkpoint are one transaction. What is read is read outside of it, and not compared.
    """
    with _revision(orders, _LOOP) as job:
        yield job


@contextmanager
def backfill(orders: Orders) -> Iterator[Job]:
    """Its ``backfill`` with a pipeline: the ids of 1000 orders, one ``update_many`` for them, a checkpoint."""
    with _revision(orders, _BACKFILL) as job:
        yield job


@contextmanager
def _revision(orders: Orders, upgrade: str) -> Iterator[Job]:
    """A project with one revision; called again, the job goes on at its checkpoint."""
    import mongomig

    with tempfile.TemporaryDirectory(prefix="migronaut-bench-") as directory:
        versions = Path(directory, "migrations", "versions")
        versions.mkdir(parents=True)
        (versions / "20260101_0000_20260101_orders_shipping.py").write_text(_HEAD + upgrade, encoding="utf-8")
        config = Path(directory, "mongomig.yaml")
        # JSON is YAML too.
        config.write_text(json.dumps({"database": {"uri": uri_of(orders), "name": DB}}), encoding="utf-8")
        mongomig.current_state(config=config)  # it imports what it needs when it needs it
        yield lambda: _upgrade(config)


def _upgrade(config: Path) -> None:
    import mongomig

    mongomig.upgrade(config=config, yes=True)
