"""The schedule: every decision of a simulation is one number of one list, so that a run can be repeated and shortened.

0 is always the dull choice: no fault, nobody else's turn, the first of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Decisions:
    """Draws numbers and records them, or gives those of a recorded list again, and 0 after its end.

    Args:
        random: Where fresh numbers come from; None = only those of ``recorded``.
        recorded: The list to replay.
    """

    def __init__(self, random: Random | None, *, recorded: Sequence[int] = ()) -> None:
        self.taken: list[int] = []
        self._random = random
        self._recorded = recorded

    def draw(self, thresholds: Sequence[float]) -> int:
        """An index into cumulated probabilities, or 0 with what is left of 1.

        Args:
            thresholds: The n-th is the probability of any of the choices 1 to n+1.
        """
        if self._random is None:
            return self._replayed(len(thresholds) + 1)
        point = self._random.random()
        # Most draws find nothing, so the largest is looked at first.
        if not thresholds or point >= thresholds[-1]:
            self.taken.append(0)
            return 0
        drawn = next(index for index, threshold in enumerate(thresholds, 1) if point < threshold)
        self.taken.append(drawn)
        return drawn

    def choose(self, count: int) -> int:
        """One of ``count`` choices, each as likely."""
        if self._random is None:
            return self._replayed(count)
        chosen = int(self._random.random() * count)
        self.taken.append(chosen)
        return chosen

    def _replayed(self, count: int) -> int:
        position = len(self.taken)
        number = self._recorded[position] if position < len(self._recorded) else 0
        self.taken.append(number % count)
        return number % count


def to_text(schedule: Sequence[int]) -> str:
    """A schedule as an argument of a command line: the decisions that are not 0, as ``position:number``."""
    return ",".join(f"{position}:{number}" for position, number in enumerate(schedule) if number) or "none"


def from_text(text: str) -> list[int]:
    """The schedule that ``to_text`` wrote.

    Raises:
        ValueError: It is no such text.
    """
    if text == "none":
        return []
    pairs = [(int(position), int(number)) for position, number in (pair.split(":") for pair in text.split(","))]
    if any(number < 0 or position < 0 for position, number in pairs):
        raise ValueError("positions and numbers of a schedule are 0 or more")
    schedule = [0] * (max(position for position, _ in pairs) + 1)
    for position, number in pairs:
        schedule[position] = number
    return schedule
