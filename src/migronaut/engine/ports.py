"""Everything the engine works with, in one value."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from attrs import field, frozen

from migronaut.core.ports import Clock, Documents, Heartbeat, Locks, Store, Tickets, WriteBehind
from migronaut.core.state import Spec
from migronaut.engine.frames import log_frames
from migronaut.spec import Background


@frozen(kw_only=True)
class Source:
    """A background migration as this process finds it on disk."""

    name: str
    checksum: str
    background: Background
    description: str = ""
    requires: tuple[str, ...] = ()


class Catalog(Protocol):
    """The migration files of this process."""

    def names(self) -> tuple[str, ...]:
        """All migration files, in order."""

    def find(self, name: str) -> Source | None:
        """A background migration by file name; None when there is no such file.

        Raises:
            InvalidMigrationError: The file is there, but cannot be used.
        """


@frozen(kw_only=True)
class Ports:
    """The outside world of the engine.

    Args:
        documents: From a spec to the port of its collection.
        lease_ttl: Seconds a lane may be silent before its partition is anybody's.
        lock_ttl: The same for the lock of a coordinator step.
        random: Source of the jitter of back-offs.
        on_raise: Told of what a function of the user's raised, as it is: it may quote documents.
    """

    store: Store
    tickets: Tickets
    locks: Locks
    documents: Callable[[Spec], Documents]
    catalog: Catalog
    clock: Clock
    heartbeat: Heartbeat
    write_behind: WriteBehind
    lease_ttl: float = field(default=60.0)
    lock_ttl: float = field(default=60.0)
    random: Random = field(factory=Random)
    on_raise: Callable[[Exception], None] = field(default=log_frames)
