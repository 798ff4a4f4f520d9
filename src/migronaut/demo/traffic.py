"""The application: it goes on writing orders while they are migrated, and remembers each of its writes."""

from __future__ import annotations

import random
import threading
from collections import Counter
from types import TracebackType
from typing import Any, Self

from pymongo.database import Database
from pymongo.errors import PyMongoError

from migronaut.demo.orders import COLLECTION, FIRST_ID
from migronaut.demo.project import REVISION_FIELD
from migronaut.errors import redact

_BETWEEN = 0.005
_SEED = 7
_STATUSES = ("paid", "packed", "sent", "delivered")


class Application:
    """A thread that updates random orders, in whatever shape they are, and bumps their revision.

    The first order is left alone, to be shown before and after.

    Args:
        documents: How many orders there are.
    """

    def __init__(self, db: Database[Any], *, documents: int) -> None:
        self._orders = db[COLLECTION]
        self._documents = documents
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_orders, name="demo-application", daemon=True)
        self.writes: Counter[int] = Counter()
        self.error: str | None = None

    @property
    def total(self) -> int:
        """Writes that MongoDB acknowledged."""
        return self.writes.total()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the current write end, and stop."""
        self._ended.set()
        self._thread.join()

    def _write_orders(self) -> None:
        draw = random.Random(_SEED)
        try:
            while self._documents > 1 and not self._ended.wait(_BETWEEN):
                self._write(draw.randrange(FIRST_ID + 1, FIRST_ID + self._documents), draw.choice(_STATUSES))
        except PyMongoError as error:
            self.error = redact(f"{type(error).__name__}: {error}")

    def _write(self, order: int, status: str) -> None:
        update = {"$set": {"status": status}, "$inc": {"edits": 1, REVISION_FIELD: 1}}
        self.writes[order] += self._orders.update_one({"_id": order}, update).modified_count
