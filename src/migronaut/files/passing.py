"""Files of the migrations directory that are no migrations, where somebody might think so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from attrs import frozen

OWN = "migronaut_config.py"
"""Our own configuration, where the migrations directory is the project's."""

_NUMBERED = re.compile(r"\d+_.*\.py", re.IGNORECASE)


@frozen(order=True)
class Passed:
    """One file that was passed over.

    Args:
        name: Its path inside the directory.
        reason: Why, to complete "<name> …".
    """

    name: str
    reason: str


def passed_over(entries: Iterable[os.DirEntry[str]]) -> tuple[Passed, ...]:
    """Say why entries of the directory are no migrations; what nobody takes for one is left out."""
    return tuple(sorted(found for entry in entries for found in _passed(entry)))


def is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link that leads to one."""
    with suppress(OSError):  # a link in a circle
        return entry.is_file()
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False


def _passed(entry: os.DirEntry[str]) -> Iterator[Passed]:
    name = entry.name
    if name.startswith(".") or name == "__init__.py":
        return
    if _is_folder(entry):
        yield from (Passed(f"{name}/{inside}", "is in a folder") for inside in _numbered_in(entry))
    elif name == OWN:
        yield Passed(name, "is the configuration")
    elif not name.endswith(".py"):
        if name.lower().endswith(".py"):
            yield Passed(name, "does not end in .py, in small letters")
    elif name.startswith("_"):
        yield Passed(name, "begins with _, as helpers do")
    elif not is_file(entry):
        yield Passed(name, "leads to no file")


def _numbered_in(folder: os.DirEntry[str]) -> tuple[str, ...]:
    with suppress(OSError), os.scandir(folder) as entries:
        return tuple(entry.name for entry in entries if _NUMBERED.fullmatch(entry.name))
    return ()
