"""What a majority of the members has, and what a failover takes away.

A primary writes its own log, and the other members follow it in that order. So what a majority has is always a
beginning of the log, and what a failover undoes is an end of it. Only that end is kept here, as the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from attrs import frozen

K = TypeVar("K")
V = TypeVar("V")
Undo = Callable[[], None]


@frozen
class Mark:
    """A place in the log of one primary: behind all that it had written then."""

    term: int
    end: int


class Durability:
    """The log of the primary, from the point that a majority has.

    Attributes:
        kept: Nothing is kept before it is set, and no failover undoes anything.
        term: Counts the primaries.
    """

    def __init__(self) -> None:
        self.kept = False
        self.term = 0
        self._first = 0
        self._writes: list[list[Undo]] = []
        self._survived: list[int] = []
        self._together = False

    @property
    def pending(self) -> int:
        """Writes that no majority has."""
        return len(self._writes)

    def record(self, undo: Undo) -> None:
        """Note the way back of a write that was just made."""
        if self._together and self._writes:
            self._writes[-1].append(undo)
        elif self.kept:
            self._writes.append([undo])

    def also(self, undo: Undo) -> None:
        """Note what else goes back with the last write: what somebody has written down about it."""
        if self._writes:
            self._writes[-1].append(undo)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make the writes of a block one: a transaction is undone as a whole."""
        if self.kept:
            self._writes.append([])
        self._together = True
        try:
            yield
        finally:
            self._together = False

    def mark(self) -> Mark:
        """Where the log ends now."""
        return Mark(self.term, self._first + len(self._writes))

    def at_risk(self, mark: Mark) -> bool:
        """Whether a failover may still undo something before a mark."""
        return mark.term == self.term and bool(self._writes) and mark.end > self._first

    def acknowledge(self, mark: Mark) -> bool:
        """Let a majority have all that is before a mark, as its acknowledgement says; False when it was undone."""
        if mark.term != self.term:
            return mark.end <= self._survived[mark.term]
        done = max(0, mark.end - self._first)
        del self._writes[:done]
        self._first += done
        return True

    def fail_over(self, *, lost: int) -> None:
        """Let another member be the primary.

        Args:
            lost: How many of the pending writes it does not have, the latest ones.
        """
        kept = len(self._writes) - lost
        undone = [undo for write in self._writes[kept:] for undo in write]
        self._first += kept
        self._survived.append(self._first)
        self._writes = []
        self.term += 1
        for undo in reversed(undone):
            undo()


class Replicated(dict[K, V]):
    """Records whose changes are in the log."""

    def __init__(self, durability: Durability) -> None:
        super().__init__()
        self._durability = durability

    def __setitem__(self, key: K, value: V) -> None:
        self._record(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self._record(key)
        super().__delitem__(key)

    def _record(self, key: K) -> None:
        if self._durability.kept:
            before = self.get(key)
            self._durability.record(lambda: self._restore(key, before))

    def _restore(self, key: K, value: V | None) -> None:
        if value is None:
            super().pop(key, None)
        else:
            super().__setitem__(key, value)
