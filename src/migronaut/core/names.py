"""What a good name of a migration is: the one definition, for files, the changelog and the jobs of queues."""

from __future__ import annotations

import unicodedata

MAX_NAME_BYTES = 255
"""What a file system takes."""

_SEPARATORS = "/\\"
_BREAKING = frozenset({"Cc", "Zl", "Zp"})
"""Control characters and ends of lines: a log, a list or a changelog would show another name."""


def name_problem(name: str) -> str | None:
    """What is wrong with a name, to complete "<name> …"; None when it is the bare name of a migration file."""
    if len(name) > MAX_NAME_BYTES or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return f"is longer than the {MAX_NAME_BYTES} bytes that a file name can have"
    if any(separator in name for separator in _SEPARATORS):
        return "has a / or \\ in it; give a bare file name, without a path"
    if not name.endswith(".py") or name.startswith((".", "_")):
        return "is not the name of a migration: it ends in .py and does not start with '.' or '_'"
    if any(unicodedata.category(character) in _BREAKING for character in name):
        return "has a tab, a line end or another control character in it"
    if any(unicodedata.category(character) == "Cs" for character in name):
        return "is not valid Unicode and cannot be recorded"
    return None
