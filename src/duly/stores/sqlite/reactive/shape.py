"""Writing the names of a user's table into the statements of `rows.sql`.

Names come from the database's own catalogue and are quoted; the condition is the task's author's code, which
the database has accepted. Values are never written, only bound.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.reactive.plan import Terms
from duly.reactive.reaction import Reaction
from duly.stores.changes import Anatomy, key_of, watch_of
from duly.stores.tables.texts import statements

SQL = statements("rows", "duly.stores.sqlite.reactive")
_WORD = re.compile(r"\{(\w+)\}")
PARTS = ("part1", "part2", "part3", "part4")


def quoted(name: str) -> str:
    """A name as SQLite reads it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text of our own inside a statement."""
    return "'" + text.replace("'", "''") + "'"


def filled(text: str, **words: str) -> str:
    """Each word in its place, in one pass: what is filled in may hold braces of its own."""
    return _WORD.sub(lambda found: words.get(found[1], found[0]), text)


@dataclass(frozen=True, slots=True)
class Shape:
    """One task's view of its table."""

    reaction: Reaction
    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    watch: tuple[str, ...]

    @classmethod
    def of(cls, reaction: Reaction, anatomy: Anatomy, name: str) -> Shape:
        """Raises Impossible when the columns are not there."""
        key, watch = key_of(reaction, anatomy), watch_of(reaction, anatomy)
        return cls(reaction, quoted(name), tuple(anatomy.columns), key, watch)

    @property
    def terms(self) -> Terms:
        """What a run is told of."""
        return Terms(self.key, self.watch)

    @property
    def parts(self) -> tuple[str, ...]:
        """Where the columns of the key are kept."""
        return PARTS[: len(self.key)]

    def column(self, name: str) -> str:
        """A column of the user's table and of no other."""
        return f"{self.table}.{quoted(name)}"

    def statement(self, name: str, **words: str) -> str:
        """A statement of `rows.sql` about this table."""
        key = [self.column(one) for one in self.key]
        after = ", ".join(f":our_{part}" for part in self.parts)
        names = {
            "table": self.table,
            "parts": ", ".join(self.parts),
            "named_parts": ", ".join(f"{part} as duly_{part}" for part in self.parts),
            "wanted_parts": ", ".join(f"duly_{part}" for part in self.parts),
            "document_parts": ", ".join(f"duly_document.{part}" for part in PARTS),
            "has_parts": " and ".join(f"{part} is not null" for part in self.parts),
            "has_key": " and ".join(f"{one} is not null" for one in key),
            "join": self._pairs(key, "duly_wanted.duly_"),
            "document_join": self._pairs(key, "duly_document."),
            "is_key": self._pairs(key, ":our_"),
            "beyond": f"({', '.join(key)}) > ({after})",
            "first": key[0],
            "first_key": quoted(self.key[0]),
            "key": ", ".join(key),
            "new": ", ".join(f"new.{quoted(one)}" for one in self.key),
            "old": ", ".join(f"old.{quoted(one)}" for one in self.key),
            "watch": self.listed(self.watch),
            "key_names": ", ".join(map(quoted, self.key)),
        }
        return filled(SQL[name], **(names | words | {"where": self.reaction.where or "true"}))

    def listed(self, names: Sequence[str]) -> str:
        """Columns to be read, and nothing where there are none."""
        return ", ".join(self.column(name) for name in names) or "null"

    def _pairs(self, key: Sequence[str], prefix: str) -> str:
        return " and ".join(f"{one} = {prefix}{part}" for one, part in zip(key, self.parts, strict=True))

    def bound(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Values of the key for `is_key` and `after`."""
        given = [*parts, *[None] * (len(self.key) - len(parts))]
        return {f"our_{part}": value for part, value in zip(self.parts, given, strict=True)}


def stored(parts: Sequence[Any]) -> dict[str, Any]:
    """Values of the key as they are kept."""
    return dict(zip(PARTS, [*parts, *[None] * (len(PARTS) - len(parts))], strict=True))


def key_text(parts: Sequence[Any]) -> str:
    """What names a document to people: the value itself, or a list of them."""
    shown = [_shown(part) for part in parts]
    return str(shown[0]) if len(shown) == 1 else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _shown(part: Any) -> Any:
    if isinstance(part, bytes):
        return f"x'{part.hex()}'"
    return str(part) if isinstance(part, float) and not math.isfinite(part) else part
