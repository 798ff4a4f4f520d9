"""What becomes of a call when the primary is lost: which ones wait for a majority, and which are sent again.

It must say the same as ``migronaut.mongo`` and the driver below it. The collections of our own records are written
with majority, and the driver sends again, once, what changes a single document (a retryable write).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from migronaut.core.ports import PortError, UnavailableError, WriteConflictError


class Lost(Enum):
    """What becomes of a call whose write was undone while it waited for a majority."""

    SENT_AGAIN = auto()
    """To the new primary, which answers from its record of the first if it has that."""
    UNAVAILABLE = auto()
    CONFLICT = auto()
    """The new primary does not know the transaction."""


_MANY_AT_ONCE = frozenset(
    {"store.drop_plan", "store.drop_before", "store.reset_partitions", "store.drop_leases", "store.fence_expired"}
)
_SINGLE = frozenset(
    {
        "store.insert",
        "store.save",
        "store.add_partitions",
        "store.claim",
        "store.renew",
        "store.release",
        "store.checkpoint",
        "store.fail_slice",
        "store.tick",
        "locks.acquire",
        "locks.renew",
        "locks.release",
        "tickets.open",
        "tickets.claim",
        "tickets.extend",
        "tickets.again",
        "tickets.close",
        "tickets.wake",
        "tickets.resend",
        "tickets.drop",
        "tickets.sent",
    }
)
_TRANSACTIONS = frozenset({"documents.write_same", "documents.rewrite_fenced"})
_IN_PIECES = frozenset({"documents.rewrite", "documents.write_guarded"})
"""Commands of several statements, which the driver does not send again."""


class Driver:
    """The driver of one migration's documents, or of our own records.

    Args:
        write_concern: Of the migration.
    """

    def __init__(self, write_concern: Mapping[str, Any]) -> None:
        self._majority = write_concern.get("w") == "majority"

    def waits(self, point: str, given: Mapping[str, Any]) -> bool:
        """Whether a call ends only when a majority has what it wrote, and all before it."""
        if point == "store.checkpoint":
            return bool(given.get("durable", True))
        if point in _TRANSACTIONS or point == "documents.write_guarded":
            return self._majority
        return point == "documents.settle" or point in _SINGLE or point in _MANY_AT_ONCE

    @staticmethod
    def lost(point: str) -> Lost:
        """What becomes of it when the primary is lost meanwhile."""
        if point in _SINGLE:
            return Lost.SENT_AGAIN
        return Lost.CONFLICT if point in _TRANSACTIONS else Lost.UNAVAILABLE


def interrupted(point: str) -> PortError:
    """What a call raises in the middle of which the primary was lost."""
    text = "the simulation lost the primary"
    transaction = any(point.startswith(each) for each in _TRANSACTIONS)
    return WriteConflictError(text) if transaction else UnavailableError(text)
