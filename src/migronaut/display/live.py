"""Progress as it goes on: redrawn on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live

from migronaut.display.panels import line, panel, warnings
from migronaut.engine.operator.status import BackgroundStatus

_LINE_EVERY = 10.0


class LiveProgress:
    """Shows work as it goes on: redrawn on a terminal, a line every ten seconds elsewhere.

    Args:
        console: Where to.
        every: Seconds between two lines where there is no terminal.
    """

    def __init__(self, console: Console, *, every: float = _LINE_EVERY) -> None:
        self._console = console
        self._every = every
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._next_line = time.monotonic() + every
        self._told: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, *statuses: BackgroundStatus) -> None:
        """Show these migrations as they are now."""
        if self._live is not None:
            self._live.update(Group(*(panel(status) for status in statuses)), refresh=True)
            return
        for status in statuses:
            self._warn(status)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + self._every
            for status in statuses:
                self._say(line(status))

    def _warn(self, status: BackgroundStatus) -> None:
        """What holds a migration up is told at once, and once."""
        told, now = self._told.get(status.name, []), warnings(status)
        self._told[status.name] = now
        for warning in now:
            if warning not in told:
                self._say(f"{status.name}: {warning}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
