"""Commands that go on: a screen redrawn as a whole on a terminal, one text after the other elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, TextIO

from duly.cli.exits import Exit
from duly.cli.parser import Parser
from duly.cli.words import one_line
from duly.durations import duration
from duly.errors import DefinitionError, StoreError
from duly.urls import masked

ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""A screen of our own, no cursor, and long lines are cut."""
LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"

Draw = Callable[[], str]


def interval(text: str) -> timedelta:
    """`2`, `0.5`, `2s`, `1m`."""
    try:
        number = text.replace(".", "", 1).isdigit()
        return duration(float(text) if number else text, what="the time", allow_zero=False)
    except DefinitionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def offer_every(parser: Parser) -> None:
    """How often to look."""
    parser.option(
        "--every", type=interval, default=timedelta(seconds=2), metavar="TIME", help="look so often (2s)"
    )


def can_redraw(stream: TextIO) -> bool:
    """A terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """The terminal, while we have it; what it showed before comes back at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Screen:
        self._stream.write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.write(LEAVE)
        self._stream.flush()

    def show(self, text: str) -> None:
        """As much as fits. Lines are overwritten, not cleared first, so that nothing flickers."""
        rows = shutil.get_terminal_size((100, 24)).lines
        lines = text.splitlines()
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1} more lines"]
        self._stream.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        self._stream.flush()


def watch(draw: Draw, every: timedelta, *, stream: TextIO | None = None) -> int:
    """Draw again and again until Ctrl-C, which is how it ends."""
    out = stream or sys.stdout
    try:
        if can_redraw(out):
            with Screen(out) as screen:
                _repeat(draw, every, screen.show)
        else:
            _repeat(draw, every, lambda text: print(f"{text}\n", file=out, flush=True))
    except KeyboardInterrupt:
        pass
    return Exit.OK


def follow(draw: Callable[[], Mapping[str, Any]], every: timedelta) -> int:
    """For programs: one document per line, until Ctrl-C."""
    try:
        while True:
            print(json.dumps(draw(), default=str), flush=True)
            pause(every.total_seconds())
    except KeyboardInterrupt:
        return Exit.OK


def _repeat(draw: Draw, every: timedelta, show: Callable[[str], object]) -> None:
    last = ""
    while True:
        try:
            last = draw()
            show(last)
        except StoreError as error:  # it may come back; what was seen last stays
            show(f"{last}\n\nthe store is away: {one_line(masked(str(error)))}".lstrip())
        pause(every.total_seconds())


def pause(seconds: float) -> None:
    """Until the next look."""
    time.sleep(seconds)
