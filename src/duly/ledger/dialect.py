"""What differs between two databases for an operation: the words, and who says what time it is.

PostgreSQL is asked inside the statement. On SQLite the time is a parameter: wall time for what is due, time
since the machine's start for leases, so that a stepped clock never ends the lease of a running body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from duly.clock import Clock, SystemClock, boot_id
from duly.ledger.texts import commands, migrations, statements
from duly.stores.drive import Statement
from duly.stores.sqlite.connection import Spell
from duly.stores.sqlite.operations.moment import Moment
from duly.stores.tables.migrations import Migration

CLOCK: Final = "(select (extract(epoch from clock_timestamp()) * 1000000)::int8)"
"""In a select of its own: read once per statement, and an index can be used to compare with it."""
_WORDS: Final = re.compile(r"\{(\w+)\}")


class Dialect(Protocol):
    """How to say things to one database, under one namespace."""

    @property
    def name(self) -> str: ...
    @property
    def has_schemas(self) -> bool:
        """Whether the namespace is a schema that must be made, and steps need a lock."""
        ...

    @property
    def namespace(self) -> str: ...
    def say(self, operation: str, statement: str, **parameters: Any) -> Statement: ...
    def steps(self) -> tuple[Migration, ...]: ...
    def script(self, migration: Migration) -> list[Statement]: ...


@dataclass(frozen=True, slots=True)
class SqliteDialect:
    """Statements for SQLite: the namespace begins the names of the tables."""

    namespace: str
    spell: Spell
    clock: Clock = field(default_factory=SystemClock)
    name: str = "sqlite"
    has_schemas: bool = False

    def say(self, operation: str, statement: str, **parameters: Any) -> Statement:
        """A statement, with the time as it is now."""
        moment = Moment.read(self.clock, boot_id())
        text = self.spell(statements(self.name, operation)[statement])
        return Statement(text, {"now": moment.now} | moment.lease() | parameters)

    def steps(self) -> tuple[Migration, ...]:
        """The migrations of this dialect."""
        return migrations(self.name)

    def script(self, migration: Migration) -> list[Statement]:
        """A migration as statements."""
        return [Statement(self.spell(command)) for command in commands(migration.text)]


@dataclass(frozen=True, slots=True)
class PostgresDialect:
    """Statements for PostgreSQL: the namespace is a schema."""

    namespace: str
    quoted: str
    """The schema's name, quoted by the driver's own rules."""
    name: str = "postgres"
    has_schemas: bool = True

    def say(self, operation: str, statement: str, **parameters: Any) -> Statement:
        """A statement. A percent sign in the schema's name is written twice, for the driver."""
        text = self._spelled(statements(self.name, operation)[statement], self.quoted.replace("%", "%%"))
        return Statement(text, parameters)

    def steps(self) -> tuple[Migration, ...]:
        """The migrations of this dialect."""
        return migrations(self.name)

    def script(self, migration: Migration) -> list[Statement]:
        """A migration as statements, which have no parameters."""
        return [Statement(self._spelled(command, self.quoted), None) for command in commands(migration.text)]

    def _spelled(self, text: str, schema: str) -> str:
        """In one pass, so that a name which looks like one of ours is left alone."""
        words = {"schema": schema, "clock": CLOCK}
        return _WORDS.sub(lambda found: words.get(found[1], found[0]), text)
