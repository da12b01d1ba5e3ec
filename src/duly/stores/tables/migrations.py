"""A step of the schema, as both SQL stores ship it and judge it.

Apart from how a store applies one: whoever has a PostgreSQL server must not load the code for files, which
took a tenth of a worker's start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duly.errors import SchemaMismatch

_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_OLDEST: Final = re.compile(r"^-- oldest code: (\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    text: str
    oldest_code: int | None = None
    """Given when the step takes something away: code that ships fewer migrations no longer works."""

    @property
    def title(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file says about itself."""

    applied: frozenset[int] = frozenset()
    oldest_code: int = 0
    owns_file: bool = True


def parse(filename: str, text: str) -> Migration:
    """A migration from its file: the number orders it, the header says whether it takes something away."""
    named = _FILE.fullmatch(filename)
    if named is None:
        raise ValueError(f"{filename!r} is no migration: name it like 0001_jobs.sql.")
    oldest = _OLDEST.search(text)
    return Migration(int(named[1]), named[2], text, int(oldest[1]) if oldest else None)


def check_schema(schema: Schema | None, migrations: Sequence[Migration], path: str) -> None:
    """Stop code that the schema no longer serves."""
    level = migrations[-1].number if migrations else 0
    if schema is not None and schema.oldest_code > level:
        raise SchemaMismatch(
            f"{path} was migrated for newer code: it serves schema level {schema.oldest_code} and later, "
            f"this version of Duly is at {level}. Upgrade duly in this process."
        )


def missing(schema: Schema | None, migrations: Sequence[Migration]) -> list[Migration]:
    """What this code ships and the file has not seen."""
    applied = schema.applied if schema else frozenset[int]()
    return [migration for migration in migrations if migration.number not in applied]
