"""Which callables a migration file may declare, found out once and not at every call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_COUNTS = {1: "one parameter", 2: "two parameters"}


def callable_problem(function: object, *, allowed: tuple[int, ...]) -> str | None:
    """Say why a value cannot serve as a migration's function, or None when it can.

    Args:
        function: What the migration file gave.
        allowed: How many parameters it may take; those with a default do not count.
    """
    if not callable(function):
        return f"must be a function, not {type(function).__name__}"
    if _is_asynchronous(function):
        return "is asynchronous; migronaut calls plain functions: write `def` instead of `async def`"
    if _is(inspect.isgeneratorfunction, function):
        return "is a generator; return the result instead of yielding it"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return "has parameters that cannot be read; wrap it in a function of your own"
    if len(_positional(parameters)) in allowed and not _needs_keyword(parameters):
        return None
    return f"must take {' or '.join(_COUNTS[count] for count in allowed)}"


def takes_context(function: Callable[..., Any]) -> bool:
    """True when the second parameter of a checked function is the context.

    A second parameter with a default is left alone, because it is rarely meant for the context,
    unless it is called ``ctx``.
    """
    return len(_positional(list(inspect.signature(function).parameters.values()))) == 2


def _positional(parameters: list[Parameter]) -> list[Parameter]:
    candidates = [each for each in parameters if each.kind in _POSITIONAL]
    return [
        each
        for position, each in enumerate(candidates)
        if each.default is Parameter.empty or (position == 1 and each.name == "ctx")
    ]


def _needs_keyword(parameters: list[Parameter]) -> bool:
    return any(each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty for each in parameters)


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    return _is(inspect.iscoroutinefunction, function) or _is(inspect.isasyncgenfunction, function)


def _is(predicate: Callable[[Any], bool], function: Any) -> bool:
    """Look through ``functools.partial``, and at ``__call__`` of an object that is no function."""
    while isinstance(function, functools.partial):
        function = function.func
    return predicate(function) or predicate(type(function).__call__)
