"""``python -m migronaut.demo.picture [FILE]``: the live display of a real run as an SVG, for the README."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from migronaut.demo.options import DemoOptions
from migronaut.demo.run import run
from migronaut.display.panels import panel
from migronaut.engine.operator.status import BackgroundStatus

_DEFAULT = Path("docs/live.svg")
_DOCUMENTS = 120_000
_FROM = 25.0
_WIDTH = 100
_TITLE = "migronaut background run --concurrency 2"

_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Snapshot:
    """A display that keeps one moment: all lanes at work, and the time left known."""

    def __init__(self) -> None:
        self.taken: BackgroundStatus | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put away."""

    def update(self, *statuses: BackgroundStatus) -> None:
        """Keep the first good moment."""
        for status in statuses:
            good = status.progress.percent >= _FROM and status.progress.eta_low is not None
            if self.taken is None and good and len(status.leases) == status.max_parallel:
                self.taken = status


def svg_of(status: BackgroundStatus) -> str:
    """The panel of one migration as an SVG."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(panel(status))
    # Whoever looks at the picture should not load fonts from somewhere.
    return _FONT.sub("", console.export_svg(title=_TITLE, unique_id="live"))


def main(arguments: list[str]) -> int:
    """Run the demo and write the picture.

    Returns:
        The exit code: of the demo, or 1 when there was no good moment.
    """
    target = Path(arguments[0]) if arguments else _DEFAULT
    console, snapshot = Console(stderr=True), Snapshot()
    code = run(DemoOptions(documents=_DOCUMENTS), console, display=snapshot)
    if snapshot.taken is None:
        console.print("There was no moment with all lanes at work and a known time left; run it again.")
        return code or 1
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(svg_of(snapshot.taken), encoding="utf-8")
    console.print(f"The picture is in {target}.", markup=False)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
