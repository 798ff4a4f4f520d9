"""Reading ahead: while a batch is written, the next one is read and transformed.

A lane never has more than one batch read ahead, and drops it when it ends. It may be stale when its turn
comes; the guard finds that out, as for any batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import bson
from attrs import define, field

from migronaut.core.ports import Begin
from migronaut.core.state import Cursor
from migronaut.versioning import CODEC

T = TypeVar("T")


class Ahead:
    """At most one batch of a partition, made ready before its turn.

    Args:
        begin: Starts its reading.
        wanted: Whether there will be a next batch, as far as one can tell.
    """

    def __init__(self, begin: Begin, wanted: Callable[[], bool]) -> None:
        self._begin = begin
        self._wanted = wanted
        self._after: bytes | None = None
        self._result: Callable[[], Any] | None = None

    def start(self, after: Cursor, work: Callable[[], object]) -> None:
        """Begin with what comes after a cursor; what was begun before is dropped."""
        if self._wanted():
            self._after, self._result = _key(after), self._begin(work)

    def take(self, after: Cursor | None, work: Callable[[], T]) -> T:
        """What comes after a cursor: as it was read ahead, or read now."""
        result, self._result = self._result, None
        if result is None or after is None or self._after != _key(after):
            return work()
        found: T = result()
        return found

    def wait(self) -> None:
        """Let what was begun come to its end, so that a user's function is not called twice at a time."""
        if self._result is not None:
            with suppress(Exception):  # it is raised when its turn comes
                self._result()


def _key(cursor: Cursor) -> bytes:
    return bson.encode({"_id": cursor.last_id}, codec_options=CODEC)


class ThreadReadAhead:
    """A thread beside the lane, from the first thing that is read ahead to the end of the slice."""

    @contextmanager
    def open(self) -> Iterator[Begin]:
        """Begin work in the thread."""
        tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        thread: threading.Thread | None = None

        def begin(work: Callable[[], T]) -> Callable[[], T]:
            nonlocal thread
            if thread is None:
                # A daemon: what a user's function does in it must not keep the process from ending.
                thread = threading.Thread(target=_work, args=(tasks,), name="migronaut-read-ahead", daemon=True)
                thread.start()
            task = _Task(work)
            tasks.put(task)
            return task.result

        try:
            yield begin
        except BaseException:
            tasks.put(None)
            raise
        tasks.put(None)
        if thread is not None:
            thread.join()


@define
class _Task:
    """A call and what became of it."""

    call: Callable[[], Any]
    _done: threading.Event = field(factory=threading.Event)
    _value: Any = None
    _error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self.call()
        except BaseException as error:
            self._error = error
        self._done.set()

    def result(self) -> Any:
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


def _work(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
