"""What a body is told that took the end of its transaction into its own hands."""

from __future__ import annotations

from typing import Final

_REMEDY: Final = (
    "Duly commits it together with the run's completion when the body returns, and rolls it back when the "
    "body raises. For a part that may fail use a savepoint (psycopg: with connection.transaction(); "
    "SQLAlchemy: session.begin_nested())."
)

NOT_YOURS: Final = (
    "{word} is not for the body: the transaction of run.connection is not its to end. " + _REMEDY
)
ENDED: Final = (
    "The body ended the transaction of run.connection itself (COMMIT, ROLLBACK or close). " + _REMEDY
)
FAILED: Final = (
    "A statement of the body failed, its error was caught, and the transaction of run.connection takes "
    "nothing more. Let the error out, or put a savepoint around a statement that may fail."
)
UNFINISHED: Final = (
    "The body returned in the middle of a statement on run.connection (COPY or stream()). Finish it first."
)
ABANDONED: Final = "This run was told to stop before its transaction began."
FORKED: Final = (
    "run.connection belongs to process {pid}, from which this one was forked; two processes cannot speak on "
    "one connection. Open one of its own here, or do the work in the body's own process."
)
