"""A body's transaction on SQLite through SQLAlchemy, on a connection of the application's own engine.

The driver begins a transaction by itself before an INSERT, and not before `WITH … INSERT`, `CREATE TABLE` or
`SAVEPOINT`; on an engine with AUTOCOMMIT it never does. Each of these would be committed apart from the
completion, so the guard looks at every statement before it is said.
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import Any

from duly.errors import TransactionEnded
from duly.ledger.sqlite.words import ends_transaction, may_write
from duly.stores.drive import Operation
from duly.stores.sqlite.caller import raw_connection
from duly.stores.sqlite.connection import perform


def perform_on(given: Any, operation: Operation[Any]) -> Any:
    """Perform inside the transaction of a Connection or Session, or as its beginning."""
    cursor = raw_connection(given).cursor()
    cursor.row_factory = None
    try:
        return perform(cursor, operation, lambda text: text)
    finally:
        cursor.close()


def watch(given: Any, limit: timedelta) -> None:
    """From now on what is said begins the transaction and does not end it. SQLite limits no idleness."""
    from sqlalchemy import event

    has_begun = False

    def before(_connection: Any, cursor: sqlite3.Cursor, statement: str, *_: Any) -> None:
        nonlocal has_begun
        raw = cursor.connection
        if ends_transaction(statement) or (has_begun and not raw.in_transaction):
            raise TransactionEnded(
                "The guard ends this transaction, not COMMIT or ROLLBACK: return to commit, raise to roll "
                "back, begin_nested() for a part."
            )
        if not raw.in_transaction and may_write(statement):
            raw.execute("BEGIN IMMEDIATE").close()
        has_begun = raw.in_transaction

    listen: Any = event.listen
    listen(given.connection() if hasattr(given, "get_bind") else given, "before_cursor_execute", before)
