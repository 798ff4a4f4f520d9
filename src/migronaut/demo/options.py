"""What the demo can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import field, frozen

from migronaut.errors import UsageError

IMPATIENT: Mapping[str, float] = {"lease_ttl": 4, "slice_length": 2, "heal_interval": 1, "heal_grace": 1}
"""Settings, in seconds, with which what is lost comes back while somebody watches; the defaults wait longer."""

DEFAULT_DOCUMENTS = 50_000
MAX_DOCUMENTS = 5_000_000


class QueueKind(StrEnum):
    """Who wakes the work."""

    NONE = "none"
    RQ = "rq"
    DRAMATIQ = "dramatiq"


def _queue(value: str) -> QueueKind:
    try:
        return QueueKind(value)
    except ValueError:
        raise UsageError(f"The demo knows the queues {', '.join(QueueKind)}; give --queue one of them.") from None


@frozen(kw_only=True)
class DemoOptions:
    """The choices of ``migronaut demo``.

    Args:
        documents: Orders to seed and migrate, 1 to 5 000 000.
        queue: ``none`` for ``migronaut background run`` processes, else the workers of that library.
        uri: A MongoDB server of the user's, in a database of its own; None = one from the wheels.
        pipeline: Let the server rewrite the orders by an aggregation pipeline, instead of a Python function.
        keep: Leave the server (or, with ``uri``, the database) there to look around.

    Raises:
        UsageError: The number of documents is out of range, or there is no such queue.
    """

    documents: int = field(default=DEFAULT_DOCUMENTS)
    queue: QueueKind = field(default=QueueKind.NONE, converter=_queue)
    uri: str | None = None
    keep: bool = False
    pipeline: bool = False

    @documents.validator
    def _in_range(self, _: object, value: int) -> None:
        if not 1 <= value <= MAX_DOCUMENTS:
            raise UsageError(f"The demo migrates 1 to {MAX_DOCUMENTS} documents; give --documents a number in between.")
