"""Making the tables, and keeping them in step with the code: an operation like any other.

Expanding steps run when a ledger opens; one that takes something away carries a line `-- oldest code: N`,
runs only on request, and from then on stops code that ships fewer than N steps.
"""

from __future__ import annotations

from collections.abc import Callable

from duly.ledger.dialect import Dialect
from duly.stores.drive import Operation, Steps
from duly.stores.tables.migrations import Migration, Schema, check_schema, missing


def is_current(dialect: Dialect, shown: str) -> Operation[bool]:
    """Whether there is nothing to do, found out without writing."""

    def steps() -> Steps[bool]:
        return not (yield from _wanted(dialect, shown, _expands))

    return Operation("look at the schema", steps, writes=False)


def expand(dialect: Dialect, shown: str) -> Operation[list[str]]:
    """Apply what is missing and takes nothing away."""
    return Operation("migrate", lambda: _apply(dialect, shown, _expands))


def contract(dialect: Dialect, shown: str) -> Operation[list[str]]:
    """Apply everything that is missing, on somebody's explicit word."""
    return Operation("migrate", lambda: _apply(dialect, shown, lambda _: True))


def _expands(step: Migration) -> bool:
    return step.oldest_code is None


def _wanted(dialect: Dialect, shown: str, allows: Callable[[Migration], bool]) -> Steps[list[Migration]]:
    schema = yield from _read(dialect)
    check_schema(schema, dialect.steps(), shown)
    return [step for step in missing(schema, dialect.steps()) if allows(step)]


def _read(dialect: Dialect) -> Steps[Schema | None]:
    if not (yield dialect.say("migrate", "is_there", namespace=dialect.namespace)):
        return None
    rows = yield dialect.say("migrate", "read")
    if not rows:
        return None
    return Schema(
        applied=frozenset(version for version, _ in rows), oldest_code=max(oldest for _, oldest in rows)
    )


def _apply(dialect: Dialect, shown: str, allows: Callable[[Migration], bool]) -> Steps[list[str]]:
    if dialect.has_schemas:
        yield dialect.say("migrate", "alone", namespace=dialect.namespace)
        # Not `if not exists`: that asks for the right to create schemas even when there is nothing to do.
        if not (yield dialect.say("migrate", "has_schema", namespace=dialect.namespace)):
            yield dialect.say("migrate", "create_schema")
    steps = yield from _wanted(dialect, shown, allows)  # looked at again, now that nobody else may do it
    yield dialect.say("migrate", "create")
    for step in steps:
        for statement in dialect.script(step):  # noqa: UP028  a list takes no answers
            yield statement
        yield dialect.say(
            "migrate", "append", version=step.number, name=step.name, oldest_code=step.oldest_code or 0
        )
    return [step.title for step in steps]
