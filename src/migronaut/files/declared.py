"""What a migration module may declare. Every check adds to one list, so that all problems are told at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from migronaut.spec import Background, callable_problem

Problems = list[tuple[str, str]]
Declared = Mapping[str, Any]

_MAX_TIMEOUT = 86_400.0
_NO_MIGRATION = (
    "is missing; declare `def up(ctx)` or `background = Background(...)`, or begin the name of a module that is no "
    "migration with _, as in _helpers.py"
)


def problems_of(declared: Declared) -> Problems:
    """Check ``up``, ``down``, ``background`` and ``use_transaction``."""
    given = [name for name in ("up", "down", "background") if declared.get(name) is not None]
    return [*_choice_problems(given), *_type_problems(declared, given), *_body_problems(declared, given)]


def _choice_problems(given: list[str]) -> Problems:
    if "background" in given and len(given) > 1:
        return [("background", f"is declared as well as {given[0]}; a file has one or the other, split it in two")]
    if "background" not in given and "up" not in given:
        return [("up", _NO_MIGRATION)]
    return []


def _type_problems(declared: Declared, given: list[str]) -> Problems:
    problems: Problems = []
    for name in given:
        value = declared[name]
        if name == "background":
            if not isinstance(value, Background):
                problems.append((name, f"must be Background(...), not {type(value).__name__}"))
        elif problem := callable_problem(value, allowed=(1,)):
            problems.append((name, problem))
    return problems


def _body_problems(declared: Declared, given: list[str]) -> Problems:
    """``use_transaction`` and ``timeout`` speak about a body; a background migration has none."""
    problems: Problems = []
    if not isinstance(declared.get("use_transaction", False), bool):
        problems.append(("use_transaction", "must be True or False"))
    if "background" in given:
        problems += [
            (name, "belongs to files with up(ctx); leave it out of a background migration")
            for name in ("use_transaction", "timeout")
            if declared.get(name)
        ]
    return problems


def timeout_of(declared: Declared, problems: Problems) -> float | None:
    """Return the timeout of the body in seconds, if the file sets one."""
    value = declared.get("timeout")
    if value is None:
        return None
    plain = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0 < plain <= _MAX_TIMEOUT:
        problems.append(("timeout", f"must be seconds or a timedelta, more than 0 and at most {_MAX_TIMEOUT:g} s"))
        return None
    return float(plain)


def requires_of(declared: Declared, name: str, sequence: tuple[str, ...], problems: Problems) -> tuple[str, ...]:
    """Return the migrations that must be done before ``name``: existing ones, earlier in the sequence."""
    value = declared.get("requires", ())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        problems.append(("requires", "must be a list of file names"))
        return ()
    for required in value:
        if problem := _requirement_problem(required, name, sequence):
            problems.append(("requires", problem))
    return tuple(dict.fromkeys(value))


def _requirement_problem(required: str, name: str, sequence: tuple[str, ...]) -> str | None:
    shown = ascii(required[:100])
    if required == name:
        return "names the file itself; name earlier migrations only"
    if required not in sequence:
        return f"names {shown}, but no such migration exists; give a bare file name of this directory"
    if required > name:
        return f"names {shown}, which comes later; name earlier migrations only"
    return None
