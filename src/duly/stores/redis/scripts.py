"""The Lua files, put together: each operation with the parts of the library it stands on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from duly.stores.redis.wires import Spoken, spoken

_START: Final = ("clock", "start")
_GROUND: Final = (*_START, "naming", "pending", "stored", "workers")
_GATED: Final = (*_START, "house", "gate", *_GROUND[2:])
_KEPT: Final = (*_START, "house", "upkeep", *_GROUND[2:])
_CLAIMING: Final = (*_START, "handful", *_GROUND[2:], "house", "plain")
_LENDING: Final = ("lanes", "openings", "lending")
_ROWS: Final = ("rows", "serials", "index", "verdicts", "lifecycle")
_PUTTING: Final = (*_ROWS, "clash", "requests")

Parts = tuple[str, ...]

PARTS: Final[dict[str, tuple[Parts, Parts]]] = {
    "open": (_START, ()),
    "put": ((*_GATED, "plain"), _PUTTING),
    "straight": (("clock",), ()),
    "deliver": ((*_GATED, "delivered", "plain"), _PUTTING),
    "claim": ((*_CLAIMING, *_LENDING), (*_ROWS, "recovery", "expiry", "candidates")),
    "settle": ((*_GROUND, "house", "plain", "ending"), (*_PUTTING, "settling")),
    "turn": (
        (*_CLAIMING, "ending", *_LENDING),
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
    "census": ((*_START, "naming"), ()),
    "leave": (_GROUND, ()),
    "workers": ((*_START, "pending", "workers"), ()),
    "hold": ((*_START, "house", "gate"), ()),
    "free": ((*_START, "house", "gate", "pending"), ()),
    "switches": (_START, ()),
    "grip": ((*_START, "house", "upkeep", "pending"), ()),
    "keep_grip": ((*_START, "house", "upkeep"), ()),
    "let_go": ((*_START, "house", "upkeep"), ()),
    "record": ((*_START, "house", "gate"), ()),
    "records": (_START, ()),
    "jot": ((*_START, "house", "upkeep", "pending"), ()),
    "diary": (_START, ()),
    "notice": ((*_START, "house"), ()),
    "seal": ((*_START, "house"), ()),
    "shut": ((*_START, "house"), ()),
    "advance": ((*_START, "house"), ()),
    "take_down": ((*_START, "house"), ()),
    "receive": ((*_START, "house"), ()),
    "pack": (_GROUND, (*_ROWS, "showing")),
    "unpack": ((*_GROUND, "house"), _ROWS),
    "scan": (_START, ()),
    "starts": (_START, ()),
    "furniture": (_START, ()),
    "furnish": ((*_START, "house"), ()),
    "clear_out": ((*_START, "house"), ()),
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


SHORT: Final = "handful"
"""The part that may answer by itself: what follows it is built only where it does not."""

_ELSE: Final = """
return (function()
{texts}
end)()
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A program for the server and the name the server gives it."""

    text: bytes
    sha: str
    by_name: Spoken
    """How it is called where the server knows it."""


@cache
def script(name: str) -> Script:
    """The script of an operation: what is at hand, what it may need, and the operation itself."""
    at_hand, needed = PARTS[name]
    return assembled(at_hand, needed, _read(f"{name}.lua"))


def assembled(at_hand: Parts, needed: Parts, program: str) -> Script:
    """Parts of the library with a program at the end."""
    first = at_hand.index(SHORT) + 1 if SHORT in at_hand else 0
    whole = _joined(at_hand[first:], needed, program)
    text = (_joined(at_hand[:first], (), _ELSE.format(texts=whole)) if first else whole).encode()
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
    return Script(text, sha, spoken(["EVALSHA", sha]))


def _joined(at_hand: Parts, needed: Parts, program: str) -> str:
    texts = [_read(f"lib/{part}.lua") for part in at_hand]
    if needed:
        names = ", ".join(f"{part} = {part}" for part in needed)
        inside = "\n".join(_read(f"lib/{part}.lua") for part in needed)
        texts.append(_NEED.format(texts=inside, names=names))
    return "\n".join([*texts, program])


def _read(path: str) -> str:
    return files("duly.stores.redis").joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
