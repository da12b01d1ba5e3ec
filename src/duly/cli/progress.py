"""How far a long command is: one line redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TextIO

from duly.cli.watch import can_redraw
from duly.cli.words import span

WIDTH: Final = 24
BLOCKS: Final = "█░"
REDRAW: Final = 0.1
"""Seconds between two looks of a line that is redrawn."""
SAY: Final = 3.0
"""Seconds between two lines where nothing can be redrawn."""


class Progress:
    """One thing that takes long. What it says goes to stderr: the answer is on stdout."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._stream = stream or sys.stderr
        self._monotonic = monotonic
        self._began = monotonic()
        self._is_live = can_redraw(self._stream)
        self._marks = marks(self._stream.encoding)
        self._say_at = self._began + (0.0 if self._is_live else SAY)
        self._is_drawn = False

    def reach(self, done: int) -> None:
        """So far."""
        now = self._monotonic()
        if now < self._say_at:
            return
        self._say_at = now + (REDRAW if self._is_live else SAY)
        line = line_of(self._what, done, self._total, now - self._began, self._marks)
        if self._is_live:
            self._stream.write(f"\r{line}\x1b[K")
            self._is_drawn = True
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """The line makes room for the answer."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False


def marks(encoding: str | None) -> str:
    """What a bar is drawn with: full and empty, in letters that the stream has."""
    try:
        BLOCKS.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return "#-"
    return BLOCKS


def line_of(what: str, done: int, total: int | None, seconds: float, marks: str = BLOCKS) -> str:
    """`carried ██████░░░░ 1,200 of 5,000, 600/s, 6.3s left`."""
    pace = done / seconds if seconds > 0 else 0.0
    rate = f", {pace:,.0f}/s" if pace >= 1 else ""
    if not total:
        return f"{what} {done:,}{rate}"
    done = min(done, total)
    filled = WIDTH * done // total
    left = f", {span(timedelta(seconds=(total - done) / pace))} left" if pace and done < total else ""
    bar = marks[0] * filled + marks[1] * (WIDTH - filled)
    return f"{what} {bar} {done:,} of {total:,}{rate}{left}"
