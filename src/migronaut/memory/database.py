"""The one server behind all memory ports: its data, its clock, and where tests may interrupt it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from attrs import frozen

from migronaut.core.state import BackgroundState, Partition
from migronaut.core.tickets import Ticket
from migronaut.memory.clock import FakeClock
from migronaut.memory.durability import Durability, Replicated
from migronaut.memory.server.collection import MemoryCollection

MAX_DOCUMENT_SIZE = 16 * 1024 * 1024


@frozen(kw_only=True)
class HeldLock:
    """A named lock: by whom, and until when (server time)."""

    nonce: str
    ttl: float
    expires_at: datetime


class MemoryServer:
    """What a MongoDB server is to the ports, in memory. Any number of ports share one.

    Every call of a port is one atomic step. Nothing is random but what ``random`` gives, so the same
    calls in the same order always give the same data.

    Args:
        clock: The server's time; often also the clock of the engine under test.
        random: Source of tokens, slots and samples.
        transactions: False simulates a standalone server.

    Attributes:
        interrupt: Called with the name of each point that a port reaches, e.g. ``documents.read``,
            ``documents.write_same.compared``, ``documents.write_same.before-commit``, ``store.checkpoint``.
            May write as an application would; what it raises is a crash at that point.
        max_document_size: Bytes above which a document is refused.
        max_reply_size: Bytes after which a batch that is read is cut.
        durability: What a majority has; keeps nothing unless it is told to.
    """

    def __init__(
        self, *, clock: FakeClock | None = None, random: Random | None = None, transactions: bool = True
    ) -> None:
        self.clock = clock or FakeClock()
        self.random = random or Random(0)
        self.transactions = transactions
        self.interrupt: Callable[[str], None] | None = None
        self.max_document_size = MAX_DOCUMENT_SIZE
        self.max_reply_size = MAX_DOCUMENT_SIZE
        self.lock = threading.RLock()
        self.durability = Durability()
        self.states: Replicated[str, BackgroundState] = Replicated(self.durability)
        self.partitions: Replicated[str, Partition] = Replicated(self.durability)
        self.tickets: Replicated[str, Ticket] = Replicated(self.durability)
        self.locks: Replicated[str, HeldLock] = Replicated(self.durability)
        self.ticks: Replicated[str, datetime] = Replicated(self.durability)
        self._collections: dict[str, MemoryCollection] = {}

    def now(self) -> datetime:
        """The server's time, naive UTC, whole milliseconds."""
        return self.clock.server_now()

    def after(self, seconds: float) -> datetime:
        """The server's time in ``seconds`` from now."""
        return self.now() + timedelta(seconds=seconds)

    def token(self) -> str:
        """A fresh token, from ``random``."""
        return f"{self.random.getrandbits(128):032x}"

    def collection(self, name: str) -> MemoryCollection:
        """A collection as an application sees it; created on first use."""
        with self.lock:
            if name not in self._collections:
                self._collections[name] = MemoryCollection(
                    lock=self.lock, max_size=lambda: self.max_document_size, durability=self.durability
                )
            return self._collections[name]

    def reach(self, point: str) -> None:
        """Let a test interrupt here."""
        if self.interrupt is not None:
            self.interrupt(point)
