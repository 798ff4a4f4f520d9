from __future__ import annotations

import asyncio
import ctypes
import logging
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from migronaut.core.state import Direction
from migronaut.errors import InvalidMigrationError, TransformError, describe
from migronaut.spec import Background, Context, RunInfo, Transform


class NeverStop:
    reason: str | None = None

    def is_set(self) -> bool:
        return False


CONTEXT = Context(
    stop=NeverStop(),
    logger=logging.getLogger("test"),
    direction=Direction.FORWARD,
    background=RunInfo(name="0001_a.py", generation=1, partition="p", run="r"),
)


def run(direction: str = "forward", docs: list[dict[str, Any]] | None = None, **transforms: Any) -> list[object]:
    background = Background(collection="c", from_version=0, to_version=1, **transforms)
    way = background.way(direction)
    assert isinstance(way, Transform)
    return way.call([{"a": 1}, {"a": 2}] if docs is None else docs, CONTEXT)


def test_migrate_is_called_for_each_document_in_order() -> None:
    assert run(migrate=lambda doc: doc["a"]) == [1, 2]


def test_migrate_gets_the_context_when_it_takes_two_parameters() -> None:
    assert run(migrate=lambda doc, ctx: (doc["a"], ctx)) == [(1, CONTEXT), (2, CONTEXT)]


def test_a_second_parameter_with_a_default_is_left_alone_unless_called_ctx() -> None:
    assert run(migrate=lambda doc, factor=3: doc["a"] * factor) == [3, 6]
    assert run(migrate=lambda doc, ctx=None: ctx) == [CONTEXT, CONTEXT]


def test_an_exception_of_migrate_takes_the_slot_of_its_document_only() -> None:
    first, second = run(migrate=lambda doc: 1 // (doc["a"] - 1))
    assert isinstance(first, ZeroDivisionError)
    assert second == 1


def test_an_interrupt_in_migrate_is_not_a_document_error() -> None:
    def interrupted(doc: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(migrate=interrupted)


class Ended(BaseException):
    """A class of the user's that is no Exception."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SystemExit, Ended])
def test_whatever_migrate_raises_is_an_error_of_its_document(kind: type[BaseException]) -> None:
    def raising(given: Any) -> Any:
        raise kind

    for result in run(migrate=raising):
        assert isinstance(result, TransformError)
        assert f"{kind.__name__} at line" in describe(result)
    with pytest.raises(TransformError, match=rf"{kind.__name__} at line"):
        run(migrate_many=raising)


def test_what_another_thread_sends_into_migrate_is_not_its_error() -> None:
    """So Dramatiq ends what runs too long."""

    def sent(given: Any) -> Any:
        ident = ctypes.c_ulong(threading.get_ident())
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Ended))
        while True:
            pass

    for way in ("migrate", "migrate_many"):
        with pytest.raises(Ended):
            run(**{way: sent})


def exiting(given: Any) -> Any:
    sys.exit(3)


def test_an_exit_of_migrate_is_an_error_of_its_document() -> None:
    for result in run(migrate=exiting):
        assert isinstance(result, TransformError)
        assert "SystemExit at line" in describe(result)
        assert "exiting()" in describe(result)


def test_an_exit_of_migrate_many_fails_the_slice() -> None:
    with pytest.raises(TransformError, match=r"SystemExit at line .* must not end the process"):
        run(migrate_many=exiting)


class Worker:
    """Ends as a worker of RQ does when it is asked for the second time."""

    def force_stop(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit


@pytest.mark.parametrize("function", ["migrate", "migrate_many"])
def test_an_exit_that_a_signal_asks_for_is_none_of_the_migration(function: str) -> None:
    before = signal.signal(signal.SIGUSR1, Worker().force_stop)
    try:
        with pytest.raises(SystemExit):
            run(**{function: lambda given: signal.raise_signal(signal.SIGUSR1)})
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_migrate_many_returns_one_result_per_document_exceptions_among_them() -> None:
    bad = ValueError("no")
    assert run(migrate_many=lambda docs: [docs[0], bad]) == [{"a": 1}, bad]
    assert run(migrate_many=lambda docs, ctx: (ctx, None)) == [CONTEXT, None]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_wrong_length_of_migrate_many_fails_the_slice(length: int) -> None:
    with pytest.raises(TransformError, match=f"returned {length} results for 2 documents") as caught:
        run(migrate_many=lambda docs: [None] * length)
    assert isinstance(caught.value, InvalidMigrationError)


def test_migrate_many_that_empties_its_argument_is_still_measured_against_it() -> None:
    def swallow(docs: list[Any]) -> list[Any]:
        docs.clear()
        return docs

    with pytest.raises(TransformError, match="returned 0 results for 2 documents"):
        run(migrate_many=swallow)


@pytest.mark.parametrize("result", [None, {"a": 1, "b": 2}, "ab", iter([1, 2])])
def test_migrate_many_must_return_a_list(result: object) -> None:
    with pytest.raises(TransformError, match=f"returned {type(result).__name__}"):
        run(migrate_many=lambda docs: result)


def test_an_exception_of_migrate_many_fails_the_slice() -> None:
    with pytest.raises(ZeroDivisionError):
        run(migrate_many=lambda docs: 1 // 0)


@pytest.mark.parametrize("back", [{"revert": lambda doc: -doc["a"]}, {"revert_many": lambda ds: [-1, -2]}])
@pytest.mark.parametrize("direction", ["revert", Direction.REVERT])
def test_the_way_back_is_its_own_function(direction: str, back: Any) -> None:
    assert run(direction, migrate=lambda doc: doc, **back) == [-1, -2]


def test_the_shape_of_the_forward_function_is_recorded() -> None:
    one = Background(collection="c", from_version=0, to_version=1, migrate=lambda d: d, revert_many=lambda d: d)
    many = Background(collection="c", from_version=0, to_version=1, migrate_many=lambda d: d)
    assert (one.spec.batched, one.spec.reversible) == (False, True)
    assert (many.spec.batched, many.spec.reversible) == (True, False)


class TimeLimitError(Exception):
    """As a task queue raises it from its handler of SIGALRM."""


def test_a_time_limit_that_a_signal_raises_is_nothing_that_the_document_did() -> None:
    def limit(number: int, frame: object) -> None:
        raise TimeLimitError

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        signal.raise_signal(signal.SIGALRM)
        return doc

    before = signal.signal(signal.SIGALRM, limit)
    try:
        with pytest.raises(TimeLimitError):
            run(migrate=migrate)
    finally:
        signal.signal(signal.SIGALRM, before)
