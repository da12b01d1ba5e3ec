"""A chart of the figures: bars as plain SVG, one group for each store."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from benchmarks.contenders import DULY, RAW, STORES
from benchmarks.figures import Figures

SHOWN = ("drain", "enqueue", "bulk")
WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 760, 190, 90, 18, 6, 34
COLOURS = {DULY: "#2563eb", RAW: "#cbd5e1"}
OTHERS = "#94a3b8"


def chart(figures: Figures) -> str:
    """Jobs a second; longer is better; each group has a scale of its own."""
    parts, top = list[str](), 10
    for name in SHOWN:
        for store in STORES:
            bars = measured(figures, store, name)
            if len(bars) > 1:
                parts.extend(group(f"{name}, {store}", bars, top))
                top += HEAD + len(bars) * (BAR + GAP) + GAP
    style = "<style>text{font:13px system-ui,sans-serif;fill:#334155}.t{font-weight:600}</style>"
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
    ground = f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>'
    return "\n".join([frame, "<title>Jobs a second</title>", style, ground, *parts, "</svg>"]) + "\n"


def measured(figures: Figures, store: str, name: str) -> list[tuple[str, float]]:
    """Systems and their medians, the fastest first."""
    found = [(system, figures.middle(store, system, name)) for system in figures.systems(store)]
    return sorted(((system, value) for system, value in found if value), key=lambda pair: -pair[1])


def group(title: str, bars: list[tuple[str, float]], top: int) -> Iterator[str]:
    yield f'<text class="t" x="10" y="{top + 18}">{escape(title)}, jobs/s</text>'
    scale = (WIDTH - LEFT - RIGHT) / bars[0][1]
    for place, (system, value) in enumerate(bars):
        y = top + HEAD - 6 + place * (BAR + GAP)
        width = max(1.0, value * scale)
        colour = COLOURS.get(system, OTHERS)
        yield f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(system)}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" fill="{colour}"/>'
        yield f'<text x="{LEFT + width + 8:.1f}" y="{y + 13}">{value:,.0f}</text>'
