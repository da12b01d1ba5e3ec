"""The Lua files, put together: each operation with the parts of the library it stands on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_ROWS: Final = ("start", "pending", "rows", "serials", "workers", "plain", "index", "verdicts", "lifecycle")
_SEEN: Final = (*_ROWS, "showing", "selecting")
_PUTTING: Final = (*_ROWS, "clash", "requests")
_CLAIMING: Final = ("recovery", "lanes", "lending")

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "open": ("start",),
    "put": _PUTTING,
    "claim": (*_ROWS, *_CLAIMING),
    "settle": (*_PUTTING, "settling"),
    "turn": (*_PUTTING, "settling", *_CLAIMING),
    "renew": _ROWS,
    "begin": _ROWS,
    "report": _ROWS,
    "disown": (*_PUTTING, "settling", "recovery"),
    "amend": (*_ROWS, "selecting"),
    "prune": (*_ROWS, "recovery"),
    "find": _SEEN,
    "explain": _SEEN,
    "census": ("start", "pending", "rows"),
    "leave": _ROWS,
    "workers": ("start", "pending", "workers"),
    "hold": ("start",),
    "free": ("start", "pending"),
    "switches": ("start",),
    "grip": ("start", "pending", "rows"),
    "keep_grip": ("start",),
    "let_go": ("start",),
    "record": ("start",),
    "records": ("start",),
}
"""Which parts an operation needs, in the order in which they build on each other."""


@dataclass(frozen=True, slots=True)
class Script:
    """A program for the server and the name the server gives it."""

    text: bytes
    sha: str


@cache
def script(name: str) -> Script:
    """The script of an operation, parts first."""
    return assembled(*(f"lib/{part}.lua" for part in PARTS[name]), f"{name}.lua")


def assembled(*paths: str, ending: str = "") -> Script:
    """Files of the folder `lua` as one script."""
    text = "\n".join([*(_read(path) for path in paths), ending]).encode()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest())


def _read(path: str) -> str:
    return files("duly.stores.redis").joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
