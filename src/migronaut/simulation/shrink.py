"""Shortening a schedule that leads to a violation: fewer decisions that are not 0, and a shorter list.

Source: A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002 (ddmin).
Here a decision is left out in two ways: it becomes 0, so that those behind it stay in their place, or it is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], bool]
_Cut = Callable[[Sequence[int], int, int], list[int]]


def shortened(schedule: Sequence[int], fails: Fails, *, tries: int = 400) -> list[int]:
    """A schedule that still fails, with as few decisions other than 0 as ``tries`` runs can find.

    Args:
        schedule: One that fails.
        fails: Whether a schedule leads to the same violation.
        tries: How often ``fails`` may be asked.
    """
    search = _Search(_trimmed(schedule), fails, tries)
    while search.pass_over(_zeroed) | search.pass_over(_taken_out):
        continue
    return search.best


class _Search:
    """The best so far, and how many tries are left."""

    def __init__(self, best: list[int], fails: Fails, tries: int) -> None:
        self.best = best
        self._fails = fails
        self._left = tries

    def pass_over(self, cut: _Cut) -> bool:
        """Leave out chunks, large ones first; True when something could be left out."""
        before = len(_places(self.best))
        chunk = max(1, before // 2)
        while chunk:
            start = 0
            while self._left and start < len(_places(self.best)):
                start += 0 if self._better(cut(self.best, start, chunk)) else chunk
            chunk //= 2
        return len(_places(self.best)) < before and self._left > 0

    def _better(self, candidate: list[int]) -> bool:
        self._left -= 1
        if len(_places(candidate)) >= len(_places(self.best)) or not self._fails(candidate):
            return False
        self.best = candidate
        return True


def _places(schedule: Sequence[int]) -> list[int]:
    return [place for place, number in enumerate(schedule) if number]


def _zeroed(schedule: Sequence[int], start: int, chunk: int) -> list[int]:
    gone = set(_places(schedule)[start : start + chunk])
    return _trimmed([0 if place in gone else number for place, number in enumerate(schedule)])


def _taken_out(schedule: Sequence[int], start: int, chunk: int) -> list[int]:
    gone = set(_places(schedule)[start : start + chunk])
    return _trimmed([number for place, number in enumerate(schedule) if place not in gone])


def _trimmed(schedule: Sequence[int]) -> list[int]:
    places = _places(schedule)
    return list(schedule[: places[-1] + 1]) if places else []
