"""Operations of a toy store, one table of texts, so that the driver is tested without the engine's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from duly.stores.drive import Counted, Operation, Statement, Steps
from duly.stores.tables.migrations import Migration, parse

MIGRATIONS: Final[tuple[Migration, ...]] = (
    parse(
        "0001_notes.sql",
        """-- notes: texts in the order they came
create table duly_note (number integer primary key, text text not null unique) strict;
create table duly_trace (number integer) strict;
create trigger duly_traced after insert on duly_note begin
    insert into duly_trace values (new.number);
    delete from duly_trace where number < new.number - 3;
end;
""",
    ),
)


def add(text: str, *, before: Callable[[], object] = lambda: None) -> Operation[int]:
    """Insert a note; `before` runs inside the transaction, ahead of the insert."""

    def steps() -> Steps[int]:
        before()
        rows = yield Statement("insert into duly_note (text) values (?) returning number", (text,))
        number: int = rows[0][0]
        return number

    return Operation(f"add {text}", steps)


def add_lightly(text: str, *, before: Callable[[], object] = lambda: None) -> Operation[str]:
    """Insert a note in one statement; one that is there already is asked for in a second."""

    def steps() -> Steps[str]:
        before()
        ((count, _),) = yield Counted("insert or ignore into duly_note (text) values (?)", (text,))
        if count:
            return "new"
        found = yield Statement("select text from duly_note where text = ?", (text,))
        return f"{found[0][0]} was there"

    return Operation(f"add {text}", steps, is_light=True)


def add_then_raise(text: str) -> Operation[None]:
    """Insert a note and fail afterwards."""

    def steps() -> Steps[None]:
        yield Statement("insert into duly_note (text) values (?)", (text,))
        raise ValueError(f"no {text}")

    return Operation(f"fail {text}", steps)


def ruin() -> Operation[None]:
    """Make SQLite roll back the whole transaction, as it does on a full disk."""

    def steps() -> Steps[None]:
        yield Statement("insert into duly_note values (-1, 'ruin')")
        yield Statement("insert or rollback into duly_note values (-1, 'ruin')")

    return Operation("ruin", steps)


def texts() -> Operation[list[str]]:
    """All notes, in order."""

    def steps() -> Steps[list[str]]:
        rows = yield Statement("select text from duly_note order by number")
        return [text for (text,) in rows]

    return Operation("texts", steps, writes=False)


def ask(text: str, *, writes: bool = True) -> Operation[list[tuple[object, ...]]]:
    """Any statement."""

    def steps() -> Steps[list[tuple[object, ...]]]:
        rows = yield Statement(text)
        return list(rows)

    return Operation("ask", steps, writes=writes)


def seen_from_outside(path: str) -> list[str]:
    """The committed notes, read through a connection the store knows nothing of."""
    connection = sqlite3.connect(path)
    try:
        return [text for (text,) in connection.execute("select text from duly_note order by number")]
    finally:
        connection.close()
