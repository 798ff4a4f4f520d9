"""What a function raised itself, and what reached it from outside: a real Ctrl-C is never taken for an error of it."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from types import FrameType
from typing import Any

import pytest

from migronaut.spec.raising import as_error, is_own


class Colour(Enum):
    RED = 1


class Interrupted(BaseException):
    """As an application defines it for its handler of a signal."""


def raised_by(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def by_statement() -> None:
    raise KeyboardInterrupt


def again() -> None:
    try:
        by_statement()
    except KeyboardInterrupt as error:
        raise error from None


@pytest.mark.parametrize("function", [by_statement, again, lambda: Colour(7), lambda: 1 // 0, lambda: next(iter(()))])
def test_what_a_function_raises_is_its_own(function: Callable[[], object]) -> None:
    assert is_own(raised_by(function))


def interrupted(function: Callable[[], object]) -> BaseException:
    """What comes out of a function that a real signal meets, sent once it has begun."""
    begun = threading.Event()

    def send() -> None:
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    def work() -> None:
        begun.set()
        function()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    return raised_by(work)


def loops() -> None:
    while True:
        pass


def sleeps() -> None:
    time.sleep(60)


def sorts() -> None:
    while True:
        sorted(range(100_000), key=lambda number: -number)


def fails() -> None:
    while True:
        try:
            raise ValueError
        except ValueError:
            pass


@pytest.mark.parametrize("function", [loops, sleeps, sorts, fails])
def test_a_real_interrupt_is_not_of_the_function_that_it_meets(function: Callable[[], object]) -> None:
    raised = interrupted(function)
    assert isinstance(raised, KeyboardInterrupt)
    assert not is_own(raised)


class Handler:
    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise Interrupted

    def method(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit

    def with_word(self, word: str, number: int, frame: FrameType | None) -> None:
        raise TimeoutError(word)


@pytest.mark.parametrize(
    "handler",
    [Handler(), Handler().method, functools.partial(Handler().with_word, "late")],
    ids=lambda each: str(each)[:9],
)
def test_what_the_handler_of_a_signal_raises_is_not_of_the_function_that_it_meets(handler: Any) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert not is_own(raised_by(lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_function_in_another_thread_does_not_see_an_interrupt() -> None:
    """Python gives signals to the main thread."""
    found: list[BaseException] = []
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        ended.wait(60)
        found.append(raised_by(by_statement))

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    ended.set()
    thread.join(60)
    assert is_own(found[0])


def test_what_is_no_exception_becomes_one_that_keeps_its_cause() -> None:
    raised = raised_by(by_statement)
    error = as_error(raised)
    assert error.__cause__ is raised
    assert "KeyboardInterrupt at line" in str(error)
    own = ValueError("secret")
    assert as_error(own) is own
