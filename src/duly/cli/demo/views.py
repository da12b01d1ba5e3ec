"""What the viewer sees: a panel redrawn in place on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from duly.cli.tables import has_colour, painted
from duly.cli.words import clipped

QUIET = 3.0
"""Seconds between two lines of progress where nothing can be redrawn."""
_FATES = re.compile(r"\b(live|killed|frozen)\b")


class View(Protocol):
    """Where a story is told."""

    def say(self, line: str) -> None:
        """Something happened; stays on the screen."""
        ...

    def show(self, panel: Sequence[str]) -> None:
        """How things stand; the first line alone says most."""
        ...

    def close(self) -> None: ...


class PlainView:
    """Lines, with a word about progress now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown_at = time.monotonic()

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
        self._shown_at = time.monotonic()

    def show(self, panel: Sequence[str]) -> None:
        if time.monotonic() - self._shown_at >= QUIET:
            self.say(panel[0])

    def close(self) -> None:
        """Nothing to tidy."""


class LiveView:
    """Lines that scroll, above a panel that stays."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._panel: list[str] = []

    def say(self, line: str) -> None:
        self._erase()
        print(line, file=self._stream)
        self._draw()

    def show(self, panel: Sequence[str]) -> None:
        self._erase()
        columns = shutil.get_terminal_size((100, 24)).columns
        # A line that wraps would be two to erase.
        self._panel = [self._painted(clipped(line, columns - 1)) for line in panel]
        self._draw()

    def close(self) -> None:
        self._erase()
        self._panel = []
        self._stream.flush()

    def _painted(self, line: str) -> str:
        if not has_colour(self._stream):
            return line
        return _FATES.sub(lambda found: painted(found[0], found[0]), line)

    def _erase(self) -> None:
        if self._panel:
            self._stream.write(f"\x1b[{len(self._panel)}F\x1b[J")

    def _draw(self) -> None:
        for line in self._panel:
            print(line, file=self._stream)
        self._stream.flush()


def open_view(*, plain: bool, stream: TextIO) -> View:
    """Live on a terminal that can move its cursor."""
    can_redraw = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return LiveView(stream) if can_redraw and not plain else PlainView(stream)


def bar(done: int, total: int, width: int = 32) -> str:
    """How far, as a bar."""
    filled = width * done // total if total else 0
    return "█" * filled + "░" * (width - filled)
