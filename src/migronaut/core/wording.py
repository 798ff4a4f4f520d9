"""Counted words, ends of sentences, and the name that was probably meant: the same wherever people read us."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_STAMP = re.compile(r"^\d+_")
_ALIKE = 0.7
"""Similarity from which a name may be meant: one letter wrong in a word of four."""
_MOST = 3


def plural(count: int, word: str) -> str:
    """``1 lane``, ``12 345 lanes``; only for words that take an s."""
    number = f"{count:,}".replace(",", " ")
    return f"{number} {word}" if count == 1 else f"{number} {word}s"


def times(count: int) -> str:
    """``once``, ``12 345 times``."""
    return "once" if count == 1 else plural(count, "time")


def sentence(text: str) -> str:
    """The text with one mark at its end."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` with up to three names like the given one, or nothing.

    Time stamps and ``.py`` do not count: nobody types them.
    """
    wanted = _short(given)
    scored = sorted(((_likeness(wanted, _short(name)), name) for name in names), key=lambda pair: (-pair[0], pair[1]))
    found = [name for likeness, name in scored if likeness >= _ALIKE][:_MOST]
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def _short(name: str) -> str:
    return _STAMP.sub("", name.removesuffix(".py")).casefold()


def _likeness(wanted: str, name: str) -> float:
    """Of the whole name, or of one word of it: a part of a name is enough where it means one."""
    return max(SequenceMatcher(None, wanted, each).ratio() for each in (name, *name.split("_")))
