"""Whether what came out of a function of the user's is its own doing, or came from outside while it ran.

A function may raise anything, also what is no ``Exception``: that is an error of the function. A signal (Ctrl-C, the
time limit of a queue library), or another thread, may raise the same in the middle of it: that is none.
"""

from __future__ import annotations

import functools
import signal
import traceback
from asyncio import CancelledError
from dis import opname
from types import CodeType
from typing import Any

from migronaut.errors import TransformError, describe

_OWN = (Exception, SystemExit, GeneratorExit, CancelledError)


def as_error(raised: BaseException) -> Exception:
    """What a function raised, as an error of it: another kind would end a worker, again and again."""
    if isinstance(raised, Exception):
        return raised
    error = TransformError(f"{describe(raised)}; a migration must not end the process: raise another exception.")
    error.__cause__ = raised
    return error


def is_own(raised: BaseException) -> bool:
    """Whether the function that this came out of has raised it."""
    if from_signal(raised):
        return False
    # What comes from outside interrupts at any instruction but the one that raises.
    return isinstance(raised, _OWN) or _raised_by_a_statement(raised)


def _raised_by_a_statement(raised: BaseException) -> bool:
    innermost = raised.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    return opname[innermost.tb_frame.f_code.co_code[innermost.tb_lasti]] == "RAISE_VARARGS"


def from_signal(raised: BaseException) -> bool:
    """True when a signal's handler, which may run in the middle of any function, raised it; so RQ ends what runs."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(raised.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):
        return None  # the default, or none of Python's
    function = handler if hasattr(handler, "__code__") else type(handler).__call__
    found = getattr(function, "__code__", None)
    return found if isinstance(found, CodeType) else None
