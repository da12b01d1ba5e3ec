"""The Lua files, put together: each operation with the parts of the library it stands on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_GROUND: Final = ("start", "naming", "pending", "stored", "workers")
_GATED: Final = ("start", "house", "gate", *_GROUND[1:])
_KEPT: Final = ("start", "house", "upkeep", *_GROUND[1:])
_LENDING: Final = ("lanes", "openings", "lending")
_ROWS: Final = ("rows", "serials", "index", "verdicts", "lifecycle")
_PUTTING: Final = (*_ROWS, "clash", "requests")

Parts = tuple[str, ...]

PARTS: Final[dict[str, tuple[Parts, Parts]]] = {
    "open": (("start",), ()),
    "put": ((*_GATED, "plain"), _PUTTING),
    "straight": (("start", "house", "gate"), ()),
    "deliver": ((*_GATED, "delivered", "plain"), _PUTTING),
    "claim": ((*_GROUND, "house", "plain", *_LENDING), (*_ROWS, "recovery", "expiry", "candidates")),
    "settle": ((*_GROUND, "house", "plain", "ending"), (*_PUTTING, "settling")),
    "turn": (
        (*_GROUND, "house", "plain", "ending", *_LENDING),
        (*_PUTTING, "settling", "recovery", "expiry", "candidates"),
    ),
    "renew": ((*_GROUND, "house"), _ROWS),
    "begin": (_GROUND, _ROWS),
    "report": (_GROUND, _ROWS),
    "disown": ((*_GROUND, "house", "plain", "ending"), (*_PUTTING, "settling", "recovery")),
    "amend": (_GATED, (*_ROWS, "selecting")),
    "prune": ((*_KEPT, "delivered"), (*_ROWS, "recovery")),
    "find": (_GROUND, (*_ROWS, "selecting", "showing")),
    "failures": (_GROUND, (*_ROWS, "showing")),
    "explain": (_GROUND, (*_ROWS, "selecting", "showing")),
    "census": (("start", "naming"), ()),
    "leave": (_GROUND, ()),
    "workers": (("start", "pending", "workers"), ()),
    "hold": (("start", "house", "gate"), ()),
    "free": (("start", "house", "gate", "pending"), ()),
    "switches": (("start",), ()),
    "grip": (("start", "house", "upkeep", "pending"), ()),
    "keep_grip": (("start", "house", "upkeep"), ()),
    "let_go": (("start", "house", "upkeep"), ()),
    "record": (("start", "house", "gate"), ()),
    "records": (("start",), ()),
    "jot": (("start", "house", "upkeep", "pending"), ()),
    "diary": (("start",), ()),
    "notice": (("start", "house"), ()),
    "seal": (("start", "house"), ()),
    "shut": (("start", "house"), ()),
    "advance": (("start", "house"), ()),
    "take_down": (("start", "house"), ()),
    "receive": (("start", "house"), ()),
    "pack": (_GROUND, (*_ROWS, "showing")),
    "unpack": ((*_GROUND, "house"), _ROWS),
    "scan": (("start",), ()),
    "starts": (("start",), ()),
    "furniture": (("start",), ()),
    "furnish": (("start", "house"), ()),
    "clear_out": (("start", "house"), ()),
}
"""Which parts an operation has at hand, and which `need` builds for it: each in an order to build on."""

_NEED: Final = """
do
    local parts
    local function build()
{texts}
        return {{ {names} }}
    end

    function need(name, ...)
        parts = parts or build()
        if ... then
            return parts[name], need(...)
        end
        return parts[name]
    end
end
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A program for the server and the name the server gives it."""

    text: bytes
    sha: str


@cache
def script(name: str) -> Script:
    """The script of an operation: what is at hand, what it may need, and the operation itself."""
    at_hand, needed = PARTS[name]
    return assembled(at_hand, needed, _read(f"{name}.lua"))


def assembled(at_hand: Parts, needed: Parts, program: str) -> Script:
    """Parts of the library with a program at the end."""
    texts = [_read(f"lib/{part}.lua") for part in at_hand]
    if needed:
        names = ", ".join(f"{part} = {part}" for part in needed)
        inside = "\n".join(_read(f"lib/{part}.lua") for part in needed)
        texts.append(_NEED.format(texts=inside, names=names))
    text = "\n".join([*texts, program]).encode()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest())


def _read(path: str) -> str:
    return files("duly.stores.redis").joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
