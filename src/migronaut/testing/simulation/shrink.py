"""Shortening a schedule that leads to a violation: fewer decisions that are not 0, and a list that ends early.

Source: A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002 (ddmin).
Setting a decision to 0 instead of taking it out keeps the ones behind it at their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], bool]


def shortened(schedule: Sequence[int], fails: Fails, *, tries: int = 400) -> list[int]:
    """A schedule that still fails, with as few decisions other than 0 as ``tries`` runs can find.

    Args:
        schedule: One that fails.
        fails: Whether a schedule leads to the same violation.
        tries: How often ``fails`` may be asked.
    """
    left = tries
    best = _trimmed(schedule)
    chunk = max(1, len(_places(best)) // 2)
    while left:
        places = _places(best)
        shorter = None
        for start in range(0, len(places), chunk):
            if not left:
                break
            left -= 1
            candidate = _without(best, places[start : start + chunk])
            if fails(candidate):
                shorter = candidate
                break
        if shorter is not None:
            best = shorter
            chunk = max(1, min(chunk, len(_places(best))))
        elif chunk == 1:
            break
        else:
            chunk = chunk // 2
    return best


def _places(schedule: Sequence[int]) -> list[int]:
    return [place for place, number in enumerate(schedule) if number]


def _without(schedule: Sequence[int], places: Sequence[int]) -> list[int]:
    gone = set(places)
    return _trimmed([0 if place in gone else number for place, number in enumerate(schedule)])


def _trimmed(schedule: Sequence[int]) -> list[int]:
    places = _places(schedule)
    return list(schedule[: places[-1] + 1]) if places else []
