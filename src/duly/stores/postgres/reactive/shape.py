"""Writing the names of a user's table into the statements of `rows.sql`.

Names and types come from the database's own catalogue; the condition is the task's author's code, which the
database has accepted. Values are never written, only bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from duly.reactive.plan import Terms
from duly.reactive.reaction import Reaction, fingerprint
from duly.stores.changes import Anatomy, key_of, watch_of
from duly.stores.postgres.operations.arrays import words
from duly.stores.postgres.reactive.values import read
from duly.stores.postgres.spelling import bare
from duly.stores.tables.texts import statements

SQL = statements("rows", "duly.stores.postgres.reactive")
PARTS: Final = ("duly_part1", "duly_part2", "duly_part3", "duly_part4")
_WORD: Final = re.compile(r"\{(\w+)\}")


def quoted(*names: str) -> str:
    """A name as PostgreSQL reads it, whatever is in it."""
    return sql.Identifier(*names).as_string(None)


def filled(text: str, **given: str) -> str:
    """Each word in its place, in one pass; those of the driver's stay for it."""
    return _WORD.sub(lambda found: given.get(found[1], found[0]), text)


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column: as it is written in a cast, and the name by which it is read."""

    cast: str
    name: str


@dataclass(frozen=True, slots=True)
class Shape:
    """One task's view of its table."""

    reaction: Reaction
    oid: int
    table: str
    kinds: dict[str, Kind]
    key: tuple[str, ...]
    watch: tuple[str, ...]

    @classmethod
    def of(cls, reaction: Reaction, anatomy: Anatomy, table: str, kinds: dict[str, Kind]) -> Shape:
        """Raises Impossible when the columns are not there."""
        key, watch = key_of(reaction, anatomy), watch_of(reaction, anatomy)
        return cls(reaction, anatomy.oid, table, kinds, key, watch)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the table."""
        return tuple(self.kinds)

    @property
    def terms(self) -> Terms:
        """What a run is told of."""
        return Terms(self.key, self.watch)

    @property
    def parts(self) -> tuple[str, ...]:
        """What the columns of the key are called in a statement."""
        return PARTS[: len(self.key)]

    def column(self, name: str) -> str:
        """A column of the user's table and of no other."""
        return f"{self.table}.{quoted(name)}"

    def texts(self, names: Sequence[str]) -> str:
        """Columns as text, and nothing where there are none."""
        return ", ".join(f"{self.column(name)}::text" for name in names) or "null"

    def listed(self, names: Sequence[str]) -> str:
        """Columns as they are, and nothing where there are none."""
        return ", ".join(self.column(name) for name in names) or "null"

    def statement(self, name: str, **given: str) -> str:
        """A statement of `rows.sql` about this table."""
        key = [self.column(one) for one in self.key]
        texts = [f"{one}::text" for one in key]
        casts = [self.kinds[one].cast for one in self.key]
        pairs = list(zip(self.parts, casts, strict=True))
        after = ", ".join(f"%({part})s::{cast}" for part, cast in pairs)
        names = {
            "table": self.table,
            "first": key[0],
            "key": ", ".join(key),
            "key_text": _spelled(texts),
            "has_key": " and ".join(f"{one} is not null" for one in key),
            "spelled": _spelled([f"%({part})s::{cast}::text" for part, cast in pairs]),
            "parts": ", ".join(self.parts),
            "wanted": ", ".join(f"%({part})s::{cast}[]" for part, cast in pairs),
            "join": _equal(key, [f"duly_wanted.{part}" for part in self.parts]),
            "is_key": _equal(key, [f"%({part})s::{cast}" for part, cast in pairs]),
            "beyond": f"({', '.join(key)}) > ({after})",
            "document_join": _equal(key, self._of_document(casts)),
            "key_texts": ", ".join(self._document_texts()),
            "key_kinds": ", ".join(sql.Literal(cast).as_string(None) for cast in casts),
            "watch": self.texts(self.watch),
            "types": fingerprint([(name, kind.cast) for name, kind in self.kinds.items()]),
            "where": self.reaction.where or "true",
        }
        ours = {
            word: bare(text) if word in _THEIRS else _escaped(text) for word, text in (names | given).items()
        }
        return filled(SQL[name], **ours)

    def _of_document(self, casts: Sequence[str]) -> list[str]:
        return [f"{text}::{cast}" for text, cast in zip(self._document_texts(), casts, strict=True)]

    def _document_texts(self) -> list[str]:
        if len(self.key) == 1:
            return ["duly_document.key"]
        return [f"(duly_document.key::jsonb ->> {place})" for place in range(len(self.key))]

    def wanted(self, keys: Sequence[str]) -> dict[str, str]:
        """The keys of a batch, column by column."""
        split = [self.split(key) for key in keys]
        return {part: words([parts[place] for parts in split]) for place, part in enumerate(self.parts)}

    def bound(self, key: str | None) -> dict[str, str | None]:
        """One key, column by column."""
        parts = [None] * len(self.key) if key is None else self.split(key)
        return dict(zip(self.parts, parts, strict=True))

    def split(self, key: str) -> list[str]:
        """The texts of its columns, from the text that names a document."""
        return [key] if len(self.key) == 1 else json.loads(key)

    def told(self, key: str) -> list[Any]:
        """The key for people."""
        return [
            read(self.kinds[name].name, text) for name, text in zip(self.key, self.split(key), strict=True)
        ]

    def values(self, texts: Sequence[str | None]) -> dict[str, Any]:
        """Watched values for people."""
        named = zip(self.watch, texts, strict=True)
        return {name: read(self.kinds[name].name, text) for name, text in named}


def _spelled(texts: Sequence[str]) -> str:
    """What names a document: the text of its key, or a list of such."""
    return texts[0] if len(texts) == 1 else f"jsonb_build_array({', '.join(texts)})::text"


_THEIRS: Final = frozenset({"where", "chosen"})


def _escaped(text: str) -> str:
    """Names may hold percents and braces; our own parameters must stay as they are."""
    return re.sub(r"%(?!\(duly_)", "%%", text).replace("{", "{\0")


def _equal(key: Sequence[str], others: Sequence[str]) -> str:
    return " and ".join(f"{one} = {other}" for one, other in zip(key, others, strict=True))
