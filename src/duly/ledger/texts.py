"""The SQL of each operation, read once from the file that bears its name.

A file opens with what it promises; a line `-- name: word` starts each of its statements. The files have the
same names in both dialects, and so have the statements in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from duly.stores.tables import texts
from duly.stores.tables.migrations import Migration, parse


def statements(dialect: str, operation: str) -> Mapping[str, str]:
    """Every statement of `DIALECT/sql/OPERATION.sql`, by its name."""
    return texts.statements(operation, f"duly.ledger.{dialect}")


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """The steps of the schema that this version of the code ships, in order."""
    folder = files("duly.ledger").joinpath(dialect, "migrations")
    found = [
        parse(file.name, file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def commands(script: str) -> list[str]:
    """The statements of a migration, one by one. None of ours has a semicolon inside."""
    bare = re.sub(r"^\s*--.*$", "", script, flags=re.MULTILINE)
    return [command.strip() for command in bare.split(";") if command.strip()]
