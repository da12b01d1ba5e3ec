"""What PostgreSQL's errors mean for a caller: one sentence that says what to do, without the password."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from duly.errors import BadRequest, DulyError, SchemaMismatch, StoreRefused, StoreUnavailable
from duly.stores.postgres.address import Address
from duly.stores.postgres.wire import Overdue

CONFLICTS: Final = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
"""Somebody else was faster: the same again will do."""

GONE: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
STALE_PLANS: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""A pooler gave us another server's connection than the one that knows our statements."""

WORDED: Final = (None, "0A000")
"""Before a connection stands there is no code for what went wrong, only words; and one code says nothing."""

OLDEST_SERVER: Final = 130000


def is_conflict(error: BaseException) -> bool:
    return isinstance(error, CONFLICTS) or _is_late_timeout(error)


def _is_late_timeout(error: BaseException) -> bool:
    """Whether a statement was cancelled without its own time being up.

    The server cancels a statement whose lock took too long, and has forgotten why when the lock is granted at
    that very moment and the next one waited for.
    """
    return isinstance(error, errors.QueryCanceled) and "user request" in (error.diag.message_primary or "")


def is_cut_off(error: BaseException) -> bool:
    """Whether the connection is lost, and with it whatever was under way."""
    if isinstance(error, GONE):
        return True
    if isinstance(error, Overdue) or not isinstance(error, psycopg.OperationalError):
        return False  # one that does not answer in time is not asked again at once
    return error.sqlstate is None or error.sqlstate.startswith("08")


def check_server(version: int, encoding: str, address: Address) -> None:
    """Refuse servers that cannot keep the promises."""
    if version < OLDEST_SERVER:
        raise StoreRefused(
            f"{address.shown} runs PostgreSQL {version // 10000}; Duly needs 13 or newer. Upgrade the server."
        )
    if encoding != "UTF8":
        raise StoreRefused(
            f"The database of {address.shown} is encoded in {encoding}, which cannot hold every text. "
            "Create one with ENCODING 'UTF8'."
        )


def explained(error: BaseException, address: Address, doing: str) -> DulyError:
    """The error a caller sees."""
    if isinstance(error, UnicodeEncodeError):
        return BadRequest(f"{doing} was given text with half of a character in it: {error}.")
    if isinstance(error, errors.DataError | errors.ProgramLimitExceeded):
        return BadRequest(f"{doing} was given a value that PostgreSQL cannot store: {_told(error, address)}.")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
        return SchemaMismatch(
            f"{address.shown} does not have the tables that {doing} needs: {_told(error, address)}. "
            "Run `duly migrate`, or restart the process to have them made."
        )
    return _unavailable(error, f"{address.shown}: {doing} failed: {_told(error, address)}")


def unanswered(error: BaseException, address: Address, doing: str) -> StoreUnavailable:
    """The commit was sent and its answer lost."""
    return StoreUnavailable(
        f"{address.shown}: the connection broke while {doing} was being committed: {_told(error, address)}. "
        "It may or may not have taken effect: look before you repeat it."
    )


def unreachable(error: BaseException, address: Address) -> StoreUnavailable:
    """No connection could be had."""
    return _unavailable(error, f"{address.shown} cannot be reached: {_told(error, address)}")


def _unavailable(error: BaseException, sentence: str) -> StoreUnavailable:
    remedy = _remedy(error)
    kind = StoreRefused if remedy in _FOR_A_PERSON else StoreUnavailable
    return kind(f"{sentence}. {remedy}")


def _told(error: BaseException, address: Address) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()]
    said = [line for line in lines if not line.endswith("?")]  # the driver asks what we answer
    return address.masked("; ".join(said[:2])).rstrip(".")


def _remedy(error: BaseException) -> str:
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    known = _by_words(str(error).lower()) if state in WORDED else _REMEDIES.get(state or "")
    return known or "Check that the server runs and that the URL names it."


def _by_words(message: str) -> str | None:
    return next((remedy for words, remedy in _WORDS.items() if words in message), None)


_PASSWORD: Final = "Correct the user or the password in the URL, or in PGPASSWORD or ~/.pgpass."
_ADMIT: Final = "Let pg_hba.conf admit this user from this host."
_DATABASE: Final = "Create the database, or correct its name in the URL."
_NAMES: Final = "Create the database or the role, or correct its name in the URL."
_RIGHTS: Final = (
    "Grant the role CREATE on the database, or run `duly migrate` as its owner and grant the role "
    "USAGE on the schema and all rights on its tables and sequences."
)
_READ_ONLY: Final = (
    "This is a read-only server or a replica: point the URL at the primary, "
    "or add target_session_attrs=read-write."
)
_FULL: Final = "Raise max_connections, put a pooler in front, or lower `connections` in the URL."

_FOR_A_PERSON: Final = (_PASSWORD, _ADMIT, _DATABASE, _NAMES, _RIGHTS)
"""What stays as it is until somebody does this: waiting would be in vain."""

_REMEDIES: Final = {
    "28P01": _PASSWORD,
    "28000": _ADMIT,
    "3D000": _DATABASE,
    "42501": _RIGHTS,
    "25006": _READ_ONLY,
    "53300": _FULL,
    "53100": "Free space on the server's disk.",
    "55P03": "Somebody's transaction holds what is needed: find it in pg_stat_activity and end it.",
    "57014": "The server took too long: look for a lock or a slow disk in pg_stat_activity.",
    "57P03": "The server is starting or stopping: it will be tried again.",
}
_WORDS: Final = {
    "password authentication failed": _PASSWORD,
    "no password supplied": _PASSWORD,
    "no pg_hba.conf entry": _ADMIT,
    "does not exist": _NAMES,
    "too many clients": _FULL,
    "remaining connection slots": _FULL,
    "read-only": _READ_ONLY,
    "during recovery": _READ_ONLY,  # a standby that is asked to write
    "could not translate host name": "Correct the host in the URL.",
    "starting up": "The server is starting: it will be tried again.",
    "shutting down": "The server is stopping: it will be tried again.",
}
