"""Reading ahead: while a batch is written, the lane reads and transforms the next one.

A lane never has more than one batch ready, and drops it when it ends. It may be stale when its turn
comes; the guard finds that out, as for any batch. The lane itself reads and transforms, and another
thread writes: a user's functions are called in one thread only, and never twice at a time. Python runs
one thread at a time, so the lane begins only when the other one has sent its writes and waits for the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

import bson
from attrs import define, field, frozen

from migronaut.core.ports import Begin, UnderWay, alone
from migronaut.core.state import Cursor
from migronaut.versioning import CODEC

T = TypeVar("T")


@frozen
class _Ready:
    """What comes after a cursor, or what was raised on the way to it."""

    after: bytes
    batch: Any
    error: Exception | None = None


class Ahead:
    """At most one batch of a partition, made ready while the one before it is written.

    Args:
        begin: Starts the writing.
        wanted: Whether there will be a next batch, as far as one can tell.
    """

    def __init__(self, begin: Begin, wanted: Callable[[], bool]) -> None:
        self._begin = begin
        self._wanted = wanted
        self._ready: _Ready | None = None

    def take(self, after: Cursor | None, make: Callable[[], T]) -> T:
        """The batch after a cursor: the one that is ready, or a new one."""
        ready, self._ready = self._ready, None
        if ready is not None and ready.error is not None:
            raise ready.error  # also when the batch before it has to be written again: it may not be raised twice
        if ready is None or after is None or ready.after != _key(after):
            return make()
        batch: T = ready.batch
        return batch

    def meanwhile(self, write: Callable[[UnderWay], T], following: Cursor | None, make: Callable[[], object]) -> T:
        """Write, and make the batch after ``following`` ready at the same time; None when none follows."""
        if following is None or not self._wanted():
            return write(alone)
        written = self._begin(write)
        try:
            self._ready = _Ready(_key(following), make())
        except Exception as error:
            # It has its turn after what is being written now.
            self._ready = _Ready(_key(following), None, error)
        return written()


def _key(cursor: Cursor) -> bytes:
    return bson.encode({"_id": cursor.last_id}, codec_options=CODEC)


class ThreadWriteBehind:
    """A thread beside the lane, from its first write behind to the end of its partition."""

    @contextmanager
    def open(self) -> Iterator[Begin]:
        """Begin work in the thread."""
        tasks: SimpleQueue[_Task | None] = SimpleQueue()
        thread: threading.Thread | None = None

        def begin(work: Callable[[UnderWay], T]) -> Callable[[], T]:
            """Hand work to the thread; the first one starts it."""
            nonlocal thread
            if thread is None:
                thread = threading.Thread(target=_work, args=(tasks,), name="migronaut-writer", daemon=True)
                thread.start()
            task = _Task(work)
            tasks.put(task)
            _wait_until_under_way(task)
            return task.result

        try:
            yield begin
        finally:
            tasks.put(None)
            if thread is not None:
                thread.join()


@define
class _Task:
    """A call and what became of it."""

    call: Callable[[UnderWay], Any]
    under_way: threading.Event = field(factory=threading.Event)
    _done: threading.Event = field(factory=threading.Event)
    _value: Any = None
    _error: BaseException | None = None

    def run(self) -> None:
        """Make the call."""
        try:
            self._value = self.call(self.under_way.set)
        except BaseException as error:
            self._error = error
        self._done.set()
        self.under_way.set()

    def result(self) -> Any:
        """Wait for the call; return or raise what it did."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


def _wait_until_under_way(task: _Task) -> None:
    """Leave the processor to the other thread until it has sent its writes, or has ended."""
    task.under_way.wait()


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
