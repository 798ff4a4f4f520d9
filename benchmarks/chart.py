"""A bar chart as an SVG that is readable on light and on dark pages: it brings its own background for both."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from attrs import frozen

_WIDTH, _LEFT, _RIGHT = 760, 270, 150
_TOP, _ROW, _BAR, _BOTTOM = 52, 30, 18, 40
_STYLE = """
    .page { fill: #ffffff; stroke: #d0d7de }
    text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-size: 15px; font-weight: 600 }
    .quiet { fill: #59636e; font-size: 12px }
    .other { fill: #8c959f }
    .ours { fill: #0969da }
    .axis { stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #3d444d }
      text { fill: #f0f6fc }
      .quiet { fill: #9198a1 }
      .other { fill: #656c76 }
      .ours { fill: #4493f8 }
      .axis { stroke: #3d444d }
    }
"""


@frozen(kw_only=True)
class Bar:
    """One bar.

    Args:
        value: Its length, at least 0.
        text: Written behind it.
        ours: Drawn in the colour of what is shown off.
    """

    label: str
    value: float
    text: str
    ours: bool = False


def bar_chart(bars: Sequence[Bar], *, title: str, note: str) -> str:
    """The chart as the text of an SVG file.

    Args:
        bars: From top to bottom, at least one.
        note: One line below.
    """
    height = _TOP + _ROW * len(bars) + _BOTTOM
    room = _WIDTH - _LEFT - _RIGHT
    longest = max(bar.value for bar in bars) or 1.0
    rows = [_row(bar, _TOP + _ROW * index, room * bar.value / longest) for index, bar in enumerate(bars)]
    spoken = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title desc">',
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="desc">{escape(spoken)}</desc>',
        f"  <style>{_STYLE}  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="6"/>',
        f'  <text class="title" x="20" y="30">{escape(title)}</text>',
        *rows,
        f'  <line class="axis" x1="{_LEFT}" y1="{_TOP - 6}" x2="{_LEFT}" y2="{_TOP + _ROW * len(bars)}"/>',
        f'  <text class="quiet" x="20" y="{height - 16}">{escape(note)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _row(bar: Bar, top: float, length: float) -> str:
    middle = top + _BAR / 2 + 4.5
    kind = "ours" if bar.ours else "other"
    return (
        f'  <text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>\n'
        f'  <rect class="{kind}" x="{_LEFT}" y="{top}" width="{max(1.0, length):.1f}" height="{_BAR}" rx="2"/>\n'
        f'  <text x="{_LEFT + max(1.0, length) + 8:.1f}" y="{middle}">{escape(bar.text)}</text>'
    )
