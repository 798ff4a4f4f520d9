"""What a simulation found."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Violation:
    """An invariant that does not hold.

    Args:
        invariant: Its name, the same for every finding of a kind.
        text: What is wrong, in one sentence.
        cause: The traceback, if something was raised.
    """

    invariant: str
    text: str
    cause: str | None = field(default=None, eq=False, kw_only=True)

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"
