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

_HEADER: Final = re.compile(
    r"^(?P<edge>[ |+-]*)(?:Exception Group )?Traceback \(most recent call last\):$", re.M
)
_FRAME: Final = re.compile(r'^[ |]*File "(?P<path>[^"\n]*)", line \d+, in (?P<name>.+)$', re.M)
_BORROWED: Final = re.compile(r"[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]+)[\\/]|^<frozen ")
_QUOTED: Final = re.compile(r"(?<!\w)(['\"`]).*?\1(?!\w)")
_ADDRESS: Final = re.compile(r"\S+@\S+")
_NUMBERED: Final = re.compile(r"[\w-]*\d(?:[\w-]|[.,:](?=\d))*")


class Cause(NamedTuple):
    """What an error text says: the line it comes down to, and the frames that led there, outermost first."""

    headline: str
    frames: Sequence[tuple[str, str]]


@lru_cache(maxsize=128)  # a task that fails, fails the same way again and again
def fingerprint(error: str) -> str:
    """The name of an error, from its text: a traceback, or a sentence of the engine."""
    cause = _cause_of(error)
    kind, _, message = cause.headline.partition(": ")
    parts = [kind if message else _scrubbed(kind), _scrubbed(message), *_places(cause.frames)]
    return sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:LENGTH]


def fingerprint_or_none(error: str | None) -> str | None:
    """The same, where there may be no error."""
    return None if error is None else fingerprint(error)


def headline(error: str) -> str:
    """The line that an error comes down to: class and message, without the way there."""
    return _cause_of(error).headline


def _cause_of(error: str) -> Cause:
    """Of a chain the exception that ended the run; of a group the last of its members."""
    headers = list(_HEADER.finditer(error))
    story = error[headers[-1].end() :] if headers else error
    frames = list(_FRAME.finditer(story))
    if not headers and not frames:
        return Cause(_first_line(error), ())
    edge = len(headers[-1]["edge"]) if headers else 0
    after = story[frames[-1].end() :] if frames else story
    said = [line[edge:] for line in after.splitlines() if line[edge : edge + 1].strip()]
    places = [(frame["path"], frame["name"]) for frame in frames]
    return Cause(said[0].strip() if said else _first_line(error), places)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _scrubbed(message: str) -> str:
    if LEASE_RAN_OUT in message:
        return LEASE_RAN_OUT
    text = _QUOTED.sub("'…'", message[:MESSAGE])
    return _NUMBERED.sub("#", _ADDRESS.sub("#", text))


def _places(frames: Sequence[tuple[str, str]]) -> list[str]:
    """Where it happened, in the user's own code if it went through any."""
    own = [frame for frame in frames if not _BORROWED.search(frame[0])]
    places = [_place(path, name) for path, name in own or frames]
    return list(dict.fromkeys(places))[-FRAMES:]  # recursion is one place


def _place(path: str, name: str) -> str:
    folder, file = ["", *re.split(r"[\\/]", path)][-2:]
    return f"{_NUMBERED.sub('#', folder)}/{file} {name}"
