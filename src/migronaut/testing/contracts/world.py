"""A collection, the application that writes to it, and a claimed partition: what the suites of ``Documents`` need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import bson
import pytest
from attrs import frozen

from migronaut.core.ports import Checkpoint, Condition, Documents, Owner, Pass, Store, Write
from migronaut.core.state import Counters, Cursor, Partition, Scope
from migronaut.versioning import CODEC

COLLECTION = "orders"
WORK = Pass(background="20260101000000_orders.py", generation=1, plan="plan")
ANYTHING: Mapping[str, Any] = {}


class Application(Protocol):
    """How the application writes to its collection while it is migrated."""

    def insert(self, *documents: Mapping[str, Any]) -> None:
        """Insert documents."""

    def update(self, id_: Any, update: Mapping[str, Any]) -> object:
        """Change one document by ``$set`` and the like."""

    def delete(self, id_: Any) -> object:
        """Delete one document."""

    def get(self, id_: Any) -> Mapping[str, Any] | None:
        """One document as it is stored."""

    def unique(self, field: str) -> None:
        """Have ``field`` unique from now on."""

    def forbid(self, field: str) -> None:
        """Have the server refuse documents with ``field`` from now on."""

    def drop(self) -> None:
        """Drop the collection."""

    def become(self, condition: Condition) -> None:
        """Have an empty collection of this kind in the place of the one that is there."""


@frozen
class World:
    """Everything one test of the contract needs.

    Args:
        documents: The port under test, on an empty collection, with transactions.
        store: Where its partitions and leases are.
        application: Writes to the same collection.
        set_interrupt: Has the port call a function with the name of each point that it reaches.
    """

    documents: Documents
    store: Store
    application: Application
    set_interrupt: Callable[[Callable[[str], None]], None]

    def claim(self) -> Partition:
        """A partition under a lease."""
        self.store.add_partitions(
            [
                Partition(
                    id=f"{WORK.background}:1:0",
                    background=WORK.background,
                    generation=WORK.generation,
                    plan=WORK.plan,
                    seq=0,
                    scope=Scope(bracket="number"),
                )
            ]
        )
        claimed = self.store.claim(WORK, owner=Owner(name="lane", host="here", pid=1), slots=1, ttl=60)
        assert isinstance(claimed, Partition)
        return claimed

    def stored_partition(self) -> Partition:
        """The partition as it stands."""
        (partition,) = self.store.partitions(WORK)
        return partition

    def read_all(self) -> list[bytes]:
        """All documents with a number for their ``_id``."""
        batch = self.documents.read(ANYTHING, Scope(bracket="number"), after=None, limit=10_000)
        return list(batch.documents)

    def at(self, point: str, action: Callable[[], object]) -> None:
        """Do ``action`` the first time that a port reaches ``point``."""
        waiting = [point]

        def interrupt(reached: str) -> None:
            if reached in waiting:
                waiting.remove(reached)
                action()

        self.set_interrupt(interrupt)


class DocumentsContract:
    """What the suites of ``Documents`` share: override the fixture ``world``."""

    @pytest.fixture
    def world(self) -> World:
        """The port under test on an empty collection; overridden by whoever runs the suite."""
        raise NotImplementedError("override the fixture `world` to return a World of your port")


def decoded(raw: bytes) -> dict[str, Any]:
    """A document as a dict, with UUIDs."""
    return bson.decode(raw, codec_options=CODEC)


def bare(values: object) -> bytes:
    """Values as bytes: equal only if they are the same BSON."""
    return bson.encode({"": values}, codec_options=CODEC)


def write(raw: bytes, update: Mapping[str, Any], **guard: Any) -> Write:
    """An update of a document as it was read, by ``_id`` and ``guard``."""
    id_ = decoded(raw)["_id"]
    statement = bson.encode({"q": {"_id": id_, **guard}, "u": update}, codec_options=CODEC)
    return Write(id=id_, before=raw, statement=statement)


def progress(last_id: Any, *, done: bool = False) -> Checkpoint:
    """A checkpoint after one batch."""
    return Checkpoint(cursor=Cursor(last_id=last_id), counters=Counters(scanned=1, batches=1), done=done)
