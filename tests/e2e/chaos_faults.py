"""Ports of workers that lose or double what they send; ``CHAOS_FAULT`` says which.

The hints of all processes are counted together, in the database that is migrated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from attrs import evolve
from pymongo import MongoClient
from pymongo.collection import Collection

from migronaut.core.jobs import Hint
from migronaut.core.tickets import ContinueLater, WaitForLanes

TWICE = "twice"
THIRD_LOST = "third lost"
HINTS = "chaos_hints"


@cache
def _counts(pid: int) -> Collection[dict[str, Any]]:
    """For each process its own connection: none crosses a fork."""
    return MongoClient[dict[str, Any]](os.environ["MIGRONAUT_URI"])[os.environ["MIGRONAUT_DB"]][HINTS]


def _copies() -> int:
    """How often the hint that is about to be sent is delivered."""
    counted = _counts(os.getpid()).find_one_and_update(
        {"_id": "hints"}, {"$inc": {"sent": 1}}, upsert=True, return_document=True
    )
    if os.environ["CHAOS_FAULT"] == TWICE:
        return 2
    return 0 if counted["sent"] % 3 == 0 else 1


def _again(hint: Hint) -> Hint:
    return evolve(hint, id=f"{hint.id}-again")


class FaultyPort:
    """Stands before a real port."""

    def enqueue(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            super().enqueue([hint, _again(hint)][: _copies()])  # type: ignore[misc]

    def continue_later(self, job: Any, directive: ContinueLater) -> Any:
        copies = _copies()
        if copies > 1:
            super().enqueue([_again(directive.hint)])  # type: ignore[misc]
        return super().continue_later(job, directive) if copies else None  # type: ignore[misc]

    def wait_for_lanes(self, job: Any, directive: WaitForLanes) -> Any:
        copies = _copies()
        if not copies:
            self.enqueue(directive.children)
            return None
        if copies > 1:
            super().enqueue([_again(directive.hint)])  # type: ignore[misc]
        return super().wait_for_lanes(job, directive)  # type: ignore[misc]

    def wake(self, hint: Hint, ref: str | None) -> None:
        for _ in range(_copies()):
            super().wake(hint, ref)  # type: ignore[misc]
