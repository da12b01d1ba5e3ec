"""Keeping the tables in step with the code, while several versions of it may be running.

One row of `duly_schema` per migration that was applied. Expanding migrations run when a store opens;
one that takes something away carries a line `-- oldest code: N`, runs only on request, and from then on
stops code that ships fewer than N migrations. Everything else goes on: newer tables serve older code.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Final

from duly.stores.sqlite.connection import Spell, begin_immediate
from duly.stores.tables.migrations import Migration, Schema, check_schema, missing, parse

CREATE: Final = """
CREATE TABLE IF NOT EXISTS duly_schema (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    oldest_code INTEGER NOT NULL,
    owns_file INTEGER NOT NULL,
    migrated_at TEXT NOT NULL
)
"""
READ: Final = "SELECT version, oldest_code, owns_file FROM duly_schema ORDER BY version"
APPEND: Final = "INSERT INTO duly_schema VALUES (?, ?, ?, ?, ?)"
EXISTS: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
TABLES: Final = r"""
SELECT name, coalesce(sql, '') FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
"""


@cache
def shipped(package: str = "duly.stores.sqlite") -> tuple[Migration, ...]:
    """The migrations of this version of the code, in order."""
    folder = files(package) / "migrations"
    found = [
        parse(file.name, file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def read_schema(connection: sqlite3.Connection, spell: Spell) -> Schema | None:
    """What was applied to this file; None before the first migration."""
    if not connection.execute(EXISTS, [spell("duly_schema")]).fetchall():
        return None
    rows = connection.execute(spell(READ)).fetchall()
    if not rows:
        return None
    return Schema(
        applied=frozenset(version for version, _, _ in rows),
        oldest_code=max(oldest for _, oldest, _ in rows),
        owns_file=bool(rows[0][2]),
    )


def is_own_file(connection: sqlite3.Connection, spell: Spell) -> bool:
    """Whether the engine made this file and nobody else keeps tables in it."""
    schema = read_schema(connection, spell)
    rows: list[tuple[str, str]] = connection.execute(TABLES).fetchall()
    ours = (spell("duly_"), *_engine_prefixes(rows))
    return (schema is None or schema.owns_file) and all(name.startswith(ours) for name, _ in rows)


@dataclass(frozen=True, slots=True)
class Migrator:
    """Applies what is missing, once, however many processes start together."""

    connection: sqlite3.Connection
    spell: Spell
    migrations: Sequence[Migration]
    path: str

    def expand(self, now: datetime, *, owns_file: bool, is_wanted: Callable[[], bool]) -> list[str]:
        """Run what takes nothing away."""
        return self._apply(
            lambda step: step.oldest_code is None, now, owns_file=owns_file, is_wanted=is_wanted
        )

    def contract(self, now: datetime, *, owns_file: bool, is_wanted: Callable[[], bool]) -> list[str]:
        """Run everything, on somebody's explicit word."""
        return self._apply(lambda _: True, now, owns_file=owns_file, is_wanted=is_wanted)

    def _apply(
        self,
        allows: Callable[[Migration], bool],
        now: datetime,
        *,
        owns_file: bool,
        is_wanted: Callable[[], bool],
    ) -> list[str]:
        if not self._wanted(allows):
            return []
        begin_immediate(self.connection, is_wanted)
        try:
            # Looked at again under the lock: another process may have done it in between.
            steps = self._wanted(allows)
            self._run(steps, now, owns_file=owns_file)
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        return [step.title for step in steps]

    def _wanted(self, allows: Callable[[Migration], bool]) -> list[Migration]:
        schema = read_schema(self.connection, self.spell)
        check_schema(schema, self.migrations, self.path)
        return [step for step in missing(schema, self.migrations) if allows(step)]

    def _run(self, steps: Iterable[Migration], now: datetime, *, owns_file: bool) -> None:
        self.connection.execute(self.spell(CREATE))
        for step in steps:
            for statement in statements(self.spell(step.text)):
                self.connection.execute(statement)
            self.connection.execute(
                self.spell(APPEND),
                (step.number, step.name, step.oldest_code or 0, owns_file, now.isoformat()),
            )


def statements(script: str) -> Iterator[str]:
    """Split a script: the driver's own way to run one would commit our transaction first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if any(line.strip() and not line.lstrip().startswith("--") for line in pending.splitlines()):
        raise ValueError(
            f"A migration ends in the middle of a statement: {pending.strip()[:80]!r}. Add the semicolon."
        )


def _engine_prefixes(rows: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Other namespaces of the engine in the same file, known by their own schema tables."""
    return tuple(
        name.removesuffix("schema")
        for name, text in rows
        if name.endswith("_schema") and "oldest_code" in text
    )
