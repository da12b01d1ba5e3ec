"""Keeping the tables in step with the code, while several versions of it may be running.

One row of `migration` per step that was applied. Expanding steps run when a store opens; one that takes
something away carries a line `-- oldest code: N`, runs only on request, and from then on stops code that
ships fewer than N steps. Many processes may start at once: one of them does the work, the others wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from duly.stores.postgres.address import Address
from duly.stores.postgres.spelling import CLOCK, Spelling
from duly.stores.postgres.wire import Wire
from duly.stores.tables.migrations import Migration, Schema, check_schema, missing, parse

CREATE: Final = """
create table if not exists {schema}.migration (
    version integer primary key,
    name text not null,
    oldest_code integer not null,
    migrated_at bigint not null
)
"""
READ: Final = "select version, oldest_code from {schema}.migration order by version"
APPEND: Final = "insert into {schema}.migration values (%s, %s, %s, {clock})"
IS_THERE: Final = b"""
select exists (
    select 1 from pg_class join pg_namespace on pg_namespace.oid = pg_class.relnamespace
    where nspname = %s and relname = 'migration')
"""
# Read from the catalogs: the functions that look up a name may answer from before another's commit.
HAS_SCHEMA: Final = b"select exists (select 1 from pg_namespace where nspname = %s)"
ALONE: Final = b"select pg_advisory_xact_lock(%s)"
BEGIN: Final = b"begin; set local lock_timeout to '60s'; set local statement_timeout to '10min'"


@cache
def shipped(package: str = "duly.stores.postgres") -> tuple[Migration, ...]:
    """The migrations of this version of the code, in order."""
    folder = files(package) / "migrations"
    found = [
        parse(file.name, file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


@dataclass(frozen=True, slots=True)
class Migrator:
    """Applies what is missing, once, however many processes start together."""

    wire: Wire
    spell: Spelling
    migrations: Sequence[Migration]
    address: Address

    def read(self) -> Schema | None:
        """What was applied to this schema; None before the first migration."""
        ((is_there,),) = self.wire.perform(IS_THERE, (self.spell.namespace,))
        rows = self.wire.perform(self.spell.script(READ), None) if is_there else []
        if not rows:
            return None
        return Schema(
            applied=frozenset(version for version, _ in rows), oldest_code=max(oldest for _, oldest in rows)
        )

    def check(self) -> None:
        """Stop code that the schema no longer serves."""
        check_schema(self.read(), self.migrations, self.address.shown)

    def pending(self) -> list[str]:
        """What this code ships and the schema has not seen; nothing is changed."""
        return [step.title for step in missing(self.read(), self.migrations)]

    def expand(self) -> list[str]:
        """Run what takes nothing away."""
        return self._apply(lambda step: step.oldest_code is None)

    def contract(self) -> list[str]:
        """Run everything, on somebody's explicit word."""
        return self._apply(lambda _: True)

    def _apply(self, allows: Callable[[Migration], bool]) -> list[str]:
        if not self._wanted(allows):
            return []
        self.wire.perform(BEGIN, None)
        try:
            self.wire.perform(ALONE, (self._lock_number(),))
            # Looked at again under the lock: another process may have done it in between.
            steps = self._wanted(allows)
            self._run(steps)
            self.wire.perform(b"commit", None)
        except BaseException:
            if not self.wire.closed:
                self.wire.perform(b"rollback", None)
            raise
        return [step.title for step in steps]

    def _wanted(self, allows: Callable[[Migration], bool]) -> list[Migration]:
        schema = self.read()
        check_schema(schema, self.migrations, self.address.shown)
        return [step for step in missing(schema, self.migrations) if allows(step)]

    def _run(self, steps: Sequence[Migration]) -> None:
        # Not `if not exists`: that asks for the right to create schemas even when there is nothing to do.
        ((has_schema,),) = self.wire.perform(HAS_SCHEMA, (self.spell.namespace,))
        if not has_schema:
            self.wire.perform(self.spell.script("create schema {schema}"), None)
        self.wire.perform(self.spell.script(CREATE), None)
        for step in steps:
            self.wire.perform(self.spell.script(step.text), None)
            self.wire.perform(
                self.spell(APPEND.replace("{clock}", CLOCK)), (step.number, step.name, step.oldest_code or 0)
            )

    def _lock_number(self) -> int:
        name = hashlib.sha256(f"duly migrate {self.spell.namespace}".encode()).digest()
        return int.from_bytes(name[:8], signed=True)
