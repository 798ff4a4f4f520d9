"""One definition of a good name: files, the changelog and jobs accept and refuse the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migronaut.core.jobs import CoordinatorJob, Hint, parse_payload
from migronaut.core.names import name_problem
from migronaut.errors import InvalidNameError, MigrationNotFoundError, QueueJobInvalidError
from migronaut.files import MigrationsDir

GOOD = ("0001_a.py", "a b.py", "ä注文.py", "a..b.py", "x" * 252 + ".py", "'\"%s{x}.py")
BAD = (
    "",
    ".py",
    "a",
    "_a.py",
    "a/b.py",
    "a\\b.py",
    "a\tb.py",
    "a\nb.py",
    "a\0.py",
    "\ud800.py",
    "x" * 253 + ".py",
    "a.PY",
)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_bad_name_is_told_why(name: str) -> None:
    assert name_problem(name)


def accepted_by_the_directory(name: str) -> bool:
    try:
        MigrationsDir(Path("/nowhere")).path_of(name)
    except MigrationNotFoundError:
        return True
    except InvalidNameError:
        return False
    raise AssertionError("there is no such directory")


def accepted_as_a_job(name: str) -> bool:
    payload = {"v": 1, "kind": "background", "migration": name, "run": "a", "seq": 0}
    try:
        assert Hint(id="x", payload=parse_payload(payload)).body()["migration"] == name
    except QueueJobInvalidError:
        return False
    return isinstance(parse_payload(payload), CoordinatorJob)


@given(st.text(max_size=300).map(lambda text: f"{text}.py") | st.sampled_from(GOOD + BAD))
def test_files_and_jobs_agree_on_every_name(name: str) -> None:
    assert accepted_by_the_directory(name) == accepted_as_a_job(name) == (name_problem(name) is None)
