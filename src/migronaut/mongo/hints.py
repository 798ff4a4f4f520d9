"""The index that scans go by: the one on version and ``_id`` while the server has it ready, else the one on ``_id``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from migronaut.core.state import Spec

Hint = Sequence[tuple[str, int]]

BY_ID: Hint = (("_id", 1),)
_LOOK_AGAIN = 10.0
"""Seconds after which an index may have come."""
_BAD_VALUE, _NO_PLAN = 2, 291

T = TypeVar("T")


class HintRefusedError(Exception):
    """The index that a command was told to use is not there; nothing was done."""


class Hints:
    """Which index to go by, for one collection; an index may be built, be ready and go while work goes on."""

    def __init__(self, collection: Collection[Any], spec: Spec) -> None:
        self._collection = collection
        self._wanted: Hint = ((spec.version_field, 1), *BY_ID) if spec.versioned else BY_ID
        self._known: Hint | None = None
        self._looked = 0.0

    def best(self) -> Hint:
        """The index to go by now."""
        now = time.monotonic()
        if self._known is None or now - self._looked >= _LOOK_AGAIN:
            self._known = self._wanted if self._wanted == BY_ID or self._is_ready() else BY_ID
            self._looked = now
        return self._known

    def has_wanted(self) -> bool:
        """Whether what is left can be found without a scan."""
        return self._wanted != BY_ID and self.best() == self._wanted

    def using(self, run: Callable[[Hint], T]) -> T:
        """Run something by the best index; by the one on ``_id`` where the server does not have it any more."""
        hint = self.best()
        try:
            return run(hint)
        except HintRefusedError:
            self._forget()
        except OperationFailure as error:
            if hint == BY_ID or not refused(error.code, str(error)):
                raise
            self._forget()
        return run(BY_ID)

    def _forget(self) -> None:
        """Go by ``_id`` until an index may have come."""
        self._known, self._looked = BY_ID, time.monotonic()

    def _is_ready(self) -> bool:
        """One that is being built is listed, too: whether it can be used, a read of one key tells."""
        if not self._is_listed():
            return False
        try:
            self._collection.find_one({}, {"_id": 1}, hint=list(self._wanted))
        except OperationFailure as error:
            if refused(error.code, str(error)):
                return False
            raise
        return True

    def _is_listed(self) -> bool:
        indexes = list(self._collection.list_indexes())
        # Queries compare as the collection does by default, and so does the index that every collection has.
        collation = next((index.get("collation") for index in indexes if index["name"] == "_id_"), None)
        partial = ("sparse", "partialFilterExpression", "hidden")
        return any(
            tuple(index["key"].items()) == tuple(self._wanted)
            and index.get("collation") == collation
            and not any(index.get(option) for option in partial)
            for index in indexes
        )


def refused(code: int | None, text: str) -> bool:
    """Whether the server says that an index which it was told to use is not there."""
    return code == _BAD_VALUE and "hint" in text


def without_scans(run: Callable[[Hint | None], T]) -> T:
    """Let the server choose the index; by ``_id`` where it has none and scans no collection (``notablescan``)."""
    try:
        return run(None)
    except OperationFailure as error:
        if error.code != _NO_PLAN:
            raise
        return run(BY_ID)
