"""Migrations on three members while an application writes, and what must hold whatever happens to the members."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from e2e.chaos_kit import LANES, MIGRATION, Chaos, Db, python
from migronaut import Migrator
from waiting import PATIENCE, wait_until

DOCUMENTS = 3000

_SETTINGS = """\
background = Background(
    collection="orders",
    from_version=1,
    to_version=2,
    {how},
    batch_size=25,
    pause=0.1,
    max_parallel={lanes},
)
"""
_BY_FUNCTION = '''\
"""Orders keep where they go under shipping."""

from migronaut import Background


def migrate(doc):
    doc["shipping"] = {{"address": doc.pop("address")}}
    doc["migrations"] = doc.get("migrations", 0) + 1
    return doc


'''
_BY_PIPELINE = '''\
"""Orders keep where they go under shipping."""

from migronaut import Background

STAGES = [
    {{"$set": {{"shipping": {{"address": "$address"}}}}}},
    {{"$set": {{"migrations": {{"$add": [{{"$ifNull": ["$migrations", 0]}}, 1]}}}}}},
    {{"$unset": "address"}},
]

'''
FILES = {
    "function": _BY_FUNCTION + _SETTINGS.replace("{how}", "migrate=migrate"),
    "pipeline": _BY_PIPELINE + _SETTINGS.replace("{how}", "pipeline=STAGES"),
}
"""By who rewrites the documents; ``chaos`` fills in the rest."""

_PAUSE = 0.01


@frozen
class Commands:
    """Two terminals with ``migronaut background run``, without any queue."""

    variables: Mapping[str, str] = {}

    def commands(self, *, faulty: bool) -> Sequence[Sequence[str]]:
        return [python("migronaut", "background", "run", MIGRATION, "--concurrency", str(LANES // 2))] * 2

    def wake(self, migrator: Migrator) -> None:
        """They look for themselves."""

    def lose_everything(self) -> None:
        """There is nothing to lose."""

    def kept(self) -> bytes:
        return b""


@define
class Application:
    """Updates and inserts orders, each acknowledged by a majority, and remembers which were."""

    uri: str
    db: str
    hits: Counter[int] = field(factory=Counter, init=False)
    unknown: Counter[int] = field(factory=Counter, init=False)
    inserted: list[str] = field(factory=list, init=False)
    _inserts: bool = field(default=True, init=False)
    _leave: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __enter__(self) -> Application:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def insert_no_more(self) -> None:
        """The old release is gone, as it has to be before a migration can end; updates go on."""
        self._inserts = False

    def stop(self) -> None:
        """It writes nothing afterwards."""
        self._leave.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive(), "the application did not end"

    def assert_kept(self, db: Db) -> None:
        """All that was acknowledged is there, and nothing twice."""
        found = {doc["_id"]: doc.get("hits", 0) for doc in db.orders.find()}
        assert not set(self.inserted) - set(found)
        for number in range(DOCUMENTS):
            sure = self.hits[number]
            assert sure <= found[number] <= sure + self.unknown[number], number
        assert sum(self.hits.values())

    def _work(self) -> None:
        chosen = random.Random(7)
        with MongoClient[dict[str, Any]](self.uri, w="majority") as client:
            orders = client[self.db].orders
            while not self._leave.wait(_PAUSE):
                number = chosen.randrange(DOCUMENTS)
                try:
                    orders.update_one({"_id": number}, {"$inc": {"hits": 1}})
                    self.hits[number] += 1
                except PyMongoError:
                    self.unknown[number] += 1
                if self._inserts and number % 10 == 0:
                    self._insert(orders, f"late-{len(self.inserted)}")

    def _insert(self, orders: Any, name: str) -> None:
        """In the old shape."""
        try:
            orders.insert_one({"_id": name, "schema_version": 1, "address": "1 Late St"})
        except PyMongoError:
            return
        self.inserted.append(name)


def when_migrated(run: Chaos, count: int) -> None:
    """Wait until so many documents have the new shape."""
    wait_until(lambda: run.db.orders.count_documents({"schema_version": 2}) >= count, what=run.told)


def assert_exact(run: Chaos) -> None:
    """Every document was migrated once, the counters say so, and no worker told an error as a traceback."""
    found = list(run.db.orders.find())
    for doc in found:
        assert (doc.get("migrations"), doc["schema_version"]) == (1, 2), doc
        assert doc["shipping"]["address"].endswith(" St"), doc
    totals = run.status().totals
    assert (totals.migrated, totals.failed, run.status().left_out) == (len(found), 0, 0)
    assert b"Traceback" not in run.logs(), run.told()
