"""Counted words, ends of sentences, and the name that was probably meant: the same wherever people read us."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_STAMP = re.compile(r"^\d+_")
_ALIKE = 0.6
"""Similarity from which a name may be meant; the default of ``difflib``."""


def plural(count: int, word: str) -> str:
    """``1 lane``, ``12 345 lanes``; only for words that take an s."""
    number = f"{count:,}".replace(",", " ")
    return f"{number} {word}" if count == 1 else f"{number} {word}s"


def sentence(text: str) -> str:
    """The text with one mark at its end."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` with up to three names like the given one, or nothing.

    Time stamps and ``.py`` do not count: nobody types them.
    """
    short = {_short(name): name for name in names}
    found = [short[each] for each in get_close_matches(_short(given), short, n=3, cutoff=_ALIKE)]
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def _short(name: str) -> str:
    return _STAMP.sub("", name.removesuffix(".py")).casefold()
