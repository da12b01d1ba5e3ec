"""Aligned text for people: columns, and colours only where a terminal will show them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO
from unicodedata import combining, east_asian_width

from duly.cli.words import clipped

COLOURS = {
    "done": "32",
    "ok": "32",
    "live": "32",
    "running": "36",
    "waiting": "33",
    "warn": "33",
    "late": "33",
    "held": "33",
    "failed": "31",
    "fail": "31",
    "lost": "31",
    "killed": "31",
    "frozen": "34",
    "cancelled": "2",
    "skipped": "2",
}
GAP = "  "


def has_colour(stream: TextIO) -> bool:
    """Colour on a terminal that did not ask to be spared."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO | None = None) -> str:
    """Columns under their headers; the last one is cut at the edge of a terminal."""
    out = stream or sys.stdout
    widths = [
        max(wide(header), *(wide(row[column]) for row in rows)) if rows else wide(header)
        for column, header in enumerate(headers)
    ]
    room = _room_for_last(widths, out)
    lines = [_line([header.upper() for header in headers], widths, room, in_colour=False)]
    lines += [_line(row, widths, room, in_colour=has_colour(out)) for row in rows]
    return "\n".join(lines)


def pairs(facts: Sequence[tuple[str, str]]) -> str:
    """Names and values, one pair a line."""
    width = max((wide(name) for name, _ in facts), default=0)
    return "\n".join(f"{name}{' ' * (width - wide(name))}{GAP}{value}".rstrip() for name, value in facts)


def wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def painted(text: str, word: str) -> str:
    """Text in the colour of a word, if that has one."""
    colour = COLOURS.get(word)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def _room_for_last(widths: Sequence[int], stream: TextIO) -> int | None:
    if not stream.isatty():
        return None
    columns = shutil.get_terminal_size((120, 24)).columns
    return max(20, columns - sum(widths[:-1]) - len(GAP) * (len(widths) - 1))


def _line(cells: Sequence[str], widths: Sequence[int], room: int | None, *, in_colour: bool) -> str:
    parts = [*cells[:-1], cells[-1] if room is None else clipped(cells[-1], room)]
    padded = [part + " " * (width - wide(part)) for part, width in zip(parts, widths, strict=True)]
    if in_colour:
        padded = [painted(text, cell) for text, cell in zip(padded, cells, strict=True)]
    return GAP.join(padded).rstrip()
