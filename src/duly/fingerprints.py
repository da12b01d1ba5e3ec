"""What failures have in common: a short name for errors that come from the same place for the same reason.

Pure, and a function of the error's text alone, so that every store and every process gives the same name.
What differs between two of a kind is left out: line numbers (a deploy moves them), folders above the last
(releases have their own), and whatever in the message is quoted or has a digit in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

LENGTH: Final = 12
"""Hexadecimal digits: 48 bits keep a million different errors apart."""
FRAMES: Final = 3
"""The innermost frames of the user's own code tell where it happened."""
MESSAGE: Final = 500
"""Longer messages carry documents; their beginnings tell them apart."""

LEASE_RAN_OUT: Final = "lease ran out"
"""Wherever it happened: what is said of a worker that was not heard of again."""

_HEADER: Final = "Traceback (most recent call last):"
_GROUP: Final = "Exception Group "
_EDGE: Final = " |+-"
"""What stands left of the traceback of a member of an exception group."""
_FRAME: Final = re.compile(r'[ |]*File "([^"]*)", line \d+, in (.+)')
_BORROWED: Final = re.compile(r"[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]+)[\\/]|^<frozen ")
_QUOTED: Final = re.compile(r"(?<!\w)(['\"`]).*?\1(?!\w)")
_ADDRESS: Final = re.compile(r"\S+@\S+")
_NUMBERED: Final = re.compile(r"[\w-]*\d(?:[\w-]|[.,:](?=\d))*")


class Story(NamedTuple):
    """An error text taken apart: the lines of its last traceback, and how far they are indented."""

    lines: Sequence[str]
    edge: int
    has_header: bool


@lru_cache(maxsize=128)  # a task that fails, fails the same way again and again
def fingerprint(error: str) -> str:
    """The name of an error, from its text: a traceback, or a sentence of the engine."""
    story = _last_story(error)
    kind, _, message = _headline(story).partition(": ")
    parts = [kind if message else _scrubbed(kind), _scrubbed(message), *_places(story.lines)]
    return sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:LENGTH]


def fingerprint_or_none(error: str | None) -> str | None:
    """The same, where there may be no error."""
    return None if error is None else fingerprint(error)


def headline(error: str) -> str:
    """The line that an error comes down to: class and message, without the way there."""
    return _headline(_last_story(error))


def _last_story(error: str) -> Story:
    """Of a chain the exception that ended the run; of a group the last of its members."""
    place = error.rfind(_HEADER)
    while place >= 0:
        edge = error[error.rfind("\n", 0, place) + 1 : place].removesuffix(_GROUP)
        if not edge.strip(_EDGE):  # else somebody's message quotes a traceback
            return Story(error[place + len(_HEADER) :].splitlines(), len(edge), has_header=True)
        place = error.rfind(_HEADER, 0, place)
    return Story(error.splitlines(), 0, has_header=False)


def _headline(story: Story) -> str:
    """The first line at the edge after the last frame; of a sentence the first line."""
    lines, edge = story.lines, story.edge
    last = next((place for place in range(len(lines) - 1, -1, -1) if _frame(lines[place])), -1)
    said = (line[edge:].strip() for line in lines[last + 1 :] if line[edge : edge + 1].strip())
    is_sentence = last < 0 and not story.has_header
    return next((line.strip() for line in lines if line.strip()), "") if is_sentence else next(said, "")


def _scrubbed(message: str) -> str:
    if LEASE_RAN_OUT in message:
        return LEASE_RAN_OUT
    text = _QUOTED.sub("'…'", message[:MESSAGE])
    return _NUMBERED.sub("#", _ADDRESS.sub("#", text))


def _places(lines: Sequence[str]) -> list[str]:
    """Where it happened, innermost first, in the user's own code if it went through any."""
    own: dict[str, None] = {}  # recursion is one place
    borrowed: dict[str, None] = {}
    for line in reversed(lines):
        if (frame := _frame(line)) is not None:
            path, name = frame.groups()
            (borrowed if _BORROWED.search(path) else own)[_place(path, name)] = None
            if len(own) == FRAMES:
                break
    return list(own or borrowed)[:FRAMES]


def _frame(line: str) -> re.Match[str] | None:
    return _FRAME.match(line) if 'File "' in line else None  # most lines are source, and quickly passed over


def _place(path: str, name: str) -> str:
    folder, file = ["", *re.split(r"[\\/]", path)][-2:]
    return f"{_NUMBERED.sub('#', folder)}/{file} {name}"
