"""What the machines share: how long they run, two places that time passes in alike, values and how they are compared.

A machine does the same to the ports in memory and to those on MongoDB, and compares the answers. What is random on
both sides (tokens, slots) is compared by what it means.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import bson
from attrs import evolve, frozen
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pymongo.database import Database

from contract.records_fixture import Records, in_memory, on_mongo
from migronaut.core.state import BackgroundState, Partition
from migronaut.core.tickets import Ticket
from migronaut.mongo.codec import to_document
from migronaut.versioning import CODEC

Answer = TypeVar("Answer")

STEP = 44.0
"""Seconds of a short wait. However many there are in one run, no sum of them comes closer than 10 s to a limit that a
machine uses: whole thousands, and the 30 s x 2^n (at most 900 s) of lost hints."""
MOST_WAITS = 20
_CLOSE = timedelta(seconds=8)
_EPOCH = datetime(1970, 1, 1)

TEXTS = st.sampled_from(["", "boom", "$status", "$$NOW", "ä?"])
"""Texts that a pipeline of the server would read as something else."""
DURATIONS = st.sampled_from([1000.0, 2000.0, 5000.0])
WAITS = st.sampled_from([0.0, 1000.0, 4000.0]).map(lambda thousands: thousands + STEP)

IDS: tuple[Any, ...] = (
    None,
    float("nan"),
    0,
    1,
    1.0,
    Int64(1),
    Int64(2**40),
    -1.5,
    Decimal128("0.5"),
    Decimal128("NaN"),
    "",
    "a",
    "$b",
    "é\0",
    {},
    {"a": 1},
    {"a": 1.0},
    {"b": 1, "a": [1, {"c": None}]},
    b"zz",
    Binary(b"aa", 128),
    UUID(int=1),
    ObjectId("0" * 24),
    True,
    datetime(2026, 1, 1),
    Timestamp(1, 2),
)
"""Values that can be an ``_id``; some are the same for the server, and not for Python, or the other way round."""


def budget(examples: int, *, steps: int) -> settings:
    """How long a machine runs; ``MIGRONAUT_TEST_EXAMPLES`` is a factor. CI runs the same examples every time."""
    factor = float(os.environ.get("MIGRONAUT_TEST_EXAMPLES") or 1)
    return settings(
        max_examples=max(1, int(examples * factor)),
        stateful_step_count=steps,
        deadline=None,
        derandomize=factor == 1 and bool(os.environ.get("CI")),
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def outcome(act: Callable[[], Answer]) -> Answer | tuple[Any, ...]:
    """What a call answers, or the kind of error that it raises with all that a caller may rely on."""
    try:
        return act()
    except Exception as error:
        told = tuple(getattr(error, name, None) for name in ("code", "index", "kind"))
        return ("raised", type(error).__name__, *told)


@frozen
class Twins:
    """States, tickets and locks in memory and on one MongoDB, with one time."""

    memory: Records
    mongo: Records
    began: tuple[datetime, datetime]
    waited: list[float]

    @classmethod
    def of(cls, db: Database[Any]) -> Twins:
        """Two empty places; what an earlier run left in the database is deleted."""
        for name in db.list_collection_names(filter={"name": {"$regex": "^_migronaut"}}):
            db[name].delete_many({})
        memory, mongo = in_memory(), on_mongo(db)
        return cls(memory, mongo, (memory.store.now(), mongo.store.now()), [])

    def keep_time(self) -> None:
        """Let as much time pass in memory as has passed on the server, which stands still for nobody."""
        (memory_began, mongo_began), waited = self.began, timedelta(seconds=sum(self.waited))
        behind = (self.mongo.store.now() - mongo_began + waited) - (self.memory.store.now() - memory_began)
        self.memory.pass_time(max(0.0, behind.total_seconds()))

    def wait(self, seconds: float) -> None:
        """Let time pass on both sides."""
        self.mongo.pass_time(seconds)
        self.waited.append(seconds)
        self.keep_time()

    def same_moment(self, memory: datetime | None, mongo: datetime | None) -> bool:
        """Whether two server times mean the same: what MongoDB stamped was moved into the past with every wait."""
        if memory is None or mongo is None:
            return memory is mongo
        in_memory_ago, on_mongo_ago = self.memory.store.now() - memory, self.mongo.store.now() - mongo
        return abs(in_memory_ago - on_mongo_ago) < _CLOSE


def plain(value: BackgroundState | Partition | Ticket | None) -> bytes:
    """A record as bytes, without what is random or a time of the server."""
    if value is None:
        return b""
    if isinstance(value, BackgroundState):
        value = evolve(value, updated_at=_EPOCH)
    elif isinstance(value, Ticket):
        value = evolve(value, run="", due=_EPOCH)
    elif value.lease is not None:
        value = evolve(value, lease=evolve(value.lease, token="", slot=0, renewed_at=None, session=None))
    return bson.encode(to_document(value), codec_options=CODEC)
