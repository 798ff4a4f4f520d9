"""Store, tickets and locks over one place, with time that a test can let pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from attrs import frozen

from migronaut.core.ports import Locks, Owner, Pass, Store, Tickets
from migronaut.core.state import BackgroundState, Partition, Scope, Spec, Status

NAME = "0001_orders.py"
WORK = Pass(background=NAME, generation=1, plan="plan")
ANN = Owner(name="ann", host="box", pid=1)
THREADS = 16
"""How many race for what only one may get."""


@frozen(kw_only=True)
class Records:
    """The three ports over one place, and its clock.

    Args:
        pass_time: Let the server's time go on by so many seconds.
    """

    store: Store
    tickets: Tickets
    locks: Locks
    pass_time: Callable[[float], None]


class RecordsContract:
    """What the suites of ``Store``, ``Tickets`` and ``Locks`` share: override the fixture ``records``."""

    @pytest.fixture
    def records(self) -> Records:
        """The three ports over one empty place; overridden by whoever runs the suite."""
        raise NotImplementedError("override the fixture `records` to return the Records of your ports")


def state(name: str = NAME, **changes: Any) -> BackgroundState:
    """A registered migration."""
    at = datetime(2026, 1, 1)
    told: dict[str, Any] = {
        "name": name,
        "registration": "r",
        "status": Status.PENDING,
        "checksum": "sha256-1:00",
        "spec": Spec(collection="orders", filter={"a.b": {"$exists": False}, "$or": [{"x": 1}, {"x": None}]}),
        "registered_at": at,
        "updated_at": at,
    }
    return BackgroundState(**(told | changes))


def partition(seq: int, *, estimate: int = 10) -> Partition:
    """A partition of ``WORK``."""
    return Partition(
        id=f"p{seq}",
        background=NAME,
        generation=WORK.generation,
        plan=WORK.plan,
        seq=seq,
        scope=Scope(bracket="number"),
        estimate=estimate,
    )
