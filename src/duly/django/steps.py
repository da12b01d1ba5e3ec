"""Migrations out of the same SQL files as everywhere else: one operation, one step of a schema.

An engine that was opened before `migrate` has made its tables by itself: what is there is not made again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from duly.clock import SystemClock
from duly.django.compat import connections, router, settings
from duly.django.place import backend_options, place_of
from duly.stores.sqlite import migrate as sqlite
from duly.stores.sqlite.connection import spelling
from duly.stores.tables.migrations import Migration

Operation: Any = importlib.import_module("django.db.migrations.operations.base").Operation
OperationCategory: Any = importlib.import_module("django.db.migrations.operations.base").OperationCategory

OUTBOX: Final = "{}_outbox"


@dataclass(frozen=True, slots=True)
class Layout:
    """A set of tables that ships its steps by vendor, and under which names a database has it."""

    packages: dict[str, str]
    """The package whose `migrations` folder holds the steps, for each vendor of Django's."""
    namespaces: Callable[[str], list[str]]
    """The names it has in the database with that alias."""

    def steps(self, vendor: str) -> tuple[Migration, ...]:
        """All of them, in order."""
        return sqlite.shipped(self.packages[vendor]) if vendor in self.packages else ()


def engine_namespaces(alias: str) -> list[str]:
    """Of the engines whose jobs are in this database; the usual one where nobody said anything."""
    found = [place.namespace for place in _places() if place.database == alias and place.is_in_database]
    return sorted({*found, place_of({"url": None, "database": alias}).namespace})


def outbox_namespaces(alias: str) -> list[str]:
    """Of the engines elsewhere whose requests leave from this database."""
    found = [place.namespace for place in _places() if place.database == alias and not place.is_in_database]
    return sorted({OUTBOX.format(name) for name in found})


def _places() -> Iterator[Any]:
    from duly.django.engines import is_ours

    tasks: dict[str, dict[str, Any]] = getattr(settings, "TASKS", None) or {}
    for alias, words in tasks.items():
        if is_ours(words.get("BACKEND", "")):
            yield place_of(backend_options(alias) or {})


LAYOUTS: Final = {
    "engine": Layout(
        {"sqlite": "duly.stores.sqlite", "postgresql": "duly.stores.postgres"}, engine_namespaces
    ),
    "outbox": Layout(
        {"sqlite": "duly.outbox.sqlite", "postgresql": "duly.outbox.postgres"}, outbox_namespaces
    ),
}


def missing_steps(alias: str) -> list[str]:
    """What the code ships and a database lacks, by name."""
    connection = connections[alias]
    kind = VENDORS.get(connection.vendor)
    if kind is None or not router.allow_migrate(alias, "duly"):
        return []
    with connection.schema_editor(collect_sql=True) as editor:
        return [
            f"{namespace} {step.title}"
            for layout in LAYOUTS.values()
            for namespace in layout.namespaces(alias)
            for step in kind(editor, namespace, layout.steps(connection.vendor)).missing()
        ]


def has_begun(alias: str) -> bool:
    """Whether `migrate` was here: before, missing tables are nothing to wonder about."""
    recorder: Any = importlib.import_module("django.db.migrations.recorder").MigrationRecorder
    return any(label == "duly" for label, _ in recorder(connections[alias]).applied_migrations())


class Step(Operation):  # type: ignore[misc]
    """Apply step `number` of a layout to the database that is being migrated."""

    reduces_to_sql = True
    reversible = True
    category = OperationCategory.SQL

    def __init__(self, layout: str, number: int) -> None:
        self.layout = layout
        self.number = number

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """As it is written in a migration."""
        return type(self).__name__, [self.layout, self.number], {}

    def describe(self) -> str:
        """One line for `manage.py migrate --plan`."""
        return f"Step {self.number} of the tables of the {self.layout}"

    def state_forwards(self, app_label: str, state: Any) -> None:
        """No model stands for these tables here."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Make what is missing."""
        for tables in self._tables(app_label, schema_editor):
            tables.apply(self.number)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Take everything away with the first step; a later one added to tables that stay."""
        for tables in self._tables(app_label, schema_editor) if self.number == 1 else ():
            tables.drop()

    def _tables(self, app_label: str, schema_editor: Any) -> Iterator[Tables]:
        connection = schema_editor.connection
        kind = VENDORS.get(connection.vendor)
        if kind is None or not router.allow_migrate(connection.alias, app_label):
            return
        layout = LAYOUTS[self.layout]
        for namespace in layout.namespaces(connection.alias):
            yield kind(schema_editor, namespace, layout.steps(connection.vendor))


class Tables:
    """The tables of one namespace, on the connection of a schema editor."""

    def __init__(self, editor: Any, namespace: str, steps: tuple[Migration, ...]) -> None:
        self.editor = editor
        self.namespace = namespace
        self.steps = {step.number: step for step in steps}

    def apply(self, number: int) -> None:
        """Make what one step adds, unless it was made before; a vendor may have fewer steps than another."""
        if number in self.steps and (self.editor.collect_sql or number not in self.applied()):
            self.make(self.steps[number])

    def missing(self) -> list[Migration]:
        """The steps that were not made yet."""
        applied = self.applied()
        return [step for number, step in self.steps.items() if number not in applied]

    def applied(self) -> frozenset[int]:
        """The steps that were made."""
        raise NotImplementedError

    def make(self, step: Migration) -> None:
        """Make one."""
        raise NotImplementedError

    def drop(self) -> None:
        """Take all of them away."""
        raise NotImplementedError


class SqliteTables(Tables):
    """Tables whose names begin with the namespace."""

    def applied(self) -> frozenset[int]:
        schema = sqlite.read_schema(self._raw(), spelling(self.namespace))
        return schema.applied if schema else frozenset()

    def make(self, step: Migration) -> None:
        spell = spelling(self.namespace)
        for statement in (sqlite.CREATE, *sqlite.statements(spell(step.text))):
            self.editor.execute(spell(statement), params=None)
        noted = (step.number, step.name, step.oldest_code or 0, False, SystemClock().now().isoformat())
        self.editor.execute(spell(sqlite.APPEND).replace("?", "%s"), params=noted)

    def drop(self) -> None:
        prefix = f"{self.namespace}_"
        names = [name for name, _ in self._raw().execute(sqlite.TABLES) if name.startswith(prefix)]
        for name in names:
            self.editor.execute(f"DROP TABLE {self.editor.quote_name(name)}", params=None)

    def _raw(self) -> Any:
        self.editor.connection.ensure_connection()
        return self.editor.connection.connection


class PostgresTables(Tables):
    """A schema of its own."""

    def applied(self) -> frozenset[int]:
        from duly.stores.postgres import migrate as postgres

        with self.editor.connection.cursor() as cursor:
            cursor.execute(postgres.IS_THERE.decode(), [self.namespace])
            if not cursor.fetchone()[0]:
                return frozenset()
            cursor.execute(self._script(postgres.READ))
            return frozenset(version for version, _ in cursor.fetchall())

    def make(self, step: Migration) -> None:
        from duly.stores.postgres import migrate as postgres
        from duly.stores.postgres.spelling import CLOCK

        with self.editor.connection.cursor() as cursor:
            cursor.execute(postgres.HAS_SCHEMA.decode(), [self.namespace])
            has_schema = cursor.fetchone()[0]
        if not has_schema:
            self.editor.execute(self._script("create schema {schema}"), params=None)
        for text in (postgres.CREATE, step.text):
            self.editor.execute(self._script(text), params=None)
        noted = (step.number, step.name, step.oldest_code or 0)
        self.editor.execute(self._script(postgres.APPEND, clock=CLOCK), params=noted)

    def drop(self) -> None:
        self.editor.execute(self._script("drop schema if exists {schema} cascade"), params=None)

    def _script(self, text: str, **words: str) -> str:
        from duly.stores.postgres.spelling import Spelling

        return Spelling(self.namespace).script(text, **words).decode()


VENDORS: Final[dict[str, type[Tables]]] = {"sqlite": SqliteTables, "postgresql": PostgresTables}
