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
ABANDONED: Final = "This run was told to stop, or completed elsewhere, before its transaction began."
BY_ITSELF: Final = (
    "This connection is in no transaction and commits each statement by itself, so the completion would be "
    "tied to no effect. Begin a transaction on it first (psycopg: with connection.transaction(); sqlite3: "
    "BEGIN IMMEDIATE; Django: with atomic()), and complete inside."
)
ELSEWHERE: Final = (
    "This run has effects on run.connection, which commit with its completion when the body returns. "
    "run.complete() on another connection would complete it apart from them: use one of the two."
)
COMPLETED: Final = (
    "This run was completed with run.complete() on a connection of the body's own; what is written on "
    "run.connection would not be tied to it. Use one of the two."
)
TWICE: Final = (
    "was completed by an earlier transaction of this body, which did commit though its answer may have been "
    "lost. Roll this one back, or its effects happen twice"
)
FORKED: Final = (
    "run.connection belongs to process {pid}, from which this one was forked; two processes cannot speak on "
    "one connection. Open one of its own here, or do the work in the body's own process."
)
UNDONE: Final = (
    "The block that transactions= gave for this run ended without an error, but did not commit (in Django: "
    "set_rollback(True), or an error caught inside atomic(savepoint=False)), so nothing was kept. Raise an "
    "exception to roll back."
)
