"""An outbox in a SQLite file."""

from duly.outbox.sqlite.outbox import SqliteOutbox

__all__ = ["SqliteOutbox"]
