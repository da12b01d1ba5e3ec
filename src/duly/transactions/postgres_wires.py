"""Connections to PostgreSQL that a body may work on but not end, and what is said at their end.

A connection begins its transaction by itself at the body's first statement, in the same message with two
settings that end with it: how long it may idle, and a mark by which we know it again. At the end the marks
are compared, so a body that committed by itself is found out, whatever way it took.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus

from duly.errors import LeaseLost, TransactionEnded, WrongConnection
from duly.stores.drive import Operation, Row, Statement
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.caller import ARRIVAL
from duly.stores.postgres.faults import is_conflict, is_cut_off
from duly.stores.postgres.message import Part, word
from duly.stores.postgres.operations.moment import MOMENT
from duly.stores.postgres.spelling import CLOCK, LOCK_PATIENCE, Spelling
from duly.stores.postgres.wire import AsyncWire, Wire
from duly.transactions.contract import CommitUnknown, Conflict, CutOff, IdledOut
from duly.transactions.words import ABANDONED, ENDED, FAILED, FORKED, NOT_YOURS, UNFINISHED

T = TypeVar("T")

BEGIN: Final = """
begin; set local idle_in_transaction_session_timeout = {idle}; set local duly.run = '{mark}'"""
LAST_WORDS: Final = """
select current_setting('duly.run', true), set_config('lock_timeout', '{lock}', true),
    set_config('synchronous_commit', case current_setting('synchronous_commit')
        when 'off' then 'on' when 'local' then 'on' else current_setting('synchronous_commit') end, true),
    """
"""Whose transaction it is, how its end is to be done, and what every operation wants to know first."""
OWN_WORDS: Final = 3
MARK: Final = b"select current_setting('duly.run', true)"
UNDO: Final = b"rollback to savepoint duly_end"
COMMIT: Final = b"commit"


FINISH: Final = """
select 1 / (current_setting('duly.run', true) = %(mark)s::text
        and current_setting('transaction_isolation') = 'read committed')::int4,
    set_config('lock_timeout', %(lock)s::text, true),
    set_config('synchronous_commit', case current_setting('synchronous_commit')
        when 'off' then 'on' when 'local' then 'on' else current_setting('synchronous_commit') end, true),
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)"""
"""Our transaction, and one that sees what others commit meanwhile; or a division by zero.

Left to itself the server plans the end of a single run anew each time, which is more work than the run.
"""


class Loan:
    """How far one run is with its connection."""

    def __init__(self, run_id: str, lease: timedelta, *, is_prepared: bool) -> None:
        self.is_prepared = is_prepared
        """The server knows our last words by name."""
        self.mark = run_id.replace("'", "").replace("\\", "")
        idle = max(1000, lease // timedelta(milliseconds=1))
        self.beginning = BEGIN.format(idle=idle, mark=self.mark).encode()
        self.pid = os.getpid()
        self.has_begun = False
        self.is_abandoned = False
        self.is_ours = False
        """The body has ended; what is said from here on is said by us."""

    def must_begin(self, status: TransactionStatus) -> bool:
        """Whether a transaction must be opened before the body's next word goes out."""
        if self.pid != os.getpid():
            raise WrongConnection(FORKED.format(pid=self.pid))
        if self.is_ours or status is not TransactionStatus.IDLE:
            return False
        if self.has_begun:
            raise TransactionEnded(ENDED)
        if self.is_abandoned:
            raise LeaseLost(ABANDONED)
        return True

    def refuse(self, word: str) -> None:
        """Some things only we may do."""
        if not self.is_ours:
            raise TransactionEnded(NOT_YOURS.format(word=f"connection.{word}()"))


def _begin(pgconn: Any, text: bytes) -> Generator[Any, Any, None]:
    pgconn.send_query(text)
    yield from _answers(pgconn)


def _answers(pgconn: Any) -> Generator[Any, Any, list[Any]]:
    results: Any = yield from execute(pgconn)
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
    return list(results)


class BodyConnection(Wire):
    """What `run.connection` is: a psycopg connection that begins by itself and is not the body's to end."""

    loan: Loan | None = None

    def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does."""
        loan = self.loan
        if loan is not None and loan.must_begin(self.info.transaction_status):
            super().wait(_begin(self.pgconn, loan.beginning))
            loan.has_begun = True
        return super().wait(gen, *limits, **named)

    def commit(self) -> None:
        """Refused: Duly commits when the body has returned."""
        self._refuse("commit")
        super().commit()

    def rollback(self) -> None:
        """Refused: raise an exception to roll back, or use `transaction()` for a part."""
        self._refuse("rollback")
        super().rollback()

    def close(self) -> None:
        """Refused: the connection goes back to where it came from."""
        self._refuse("close")
        super().close()

    def set_autocommit(self, value: bool) -> None:
        """Refused: effects that commit by themselves are not tied to the run."""
        self._refuse("set_autocommit")
        super().set_autocommit(value)

    def _refuse(self, word: str) -> None:
        if self.loan is not None:
            self.loan.refuse(word)


class AsyncBodyConnection(AsyncWire):
    """The same on an event loop."""

    loan: Loan | None = None

    async def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does."""
        loan = self.loan
        if loan is not None and loan.must_begin(self.info.transaction_status):
            await super().wait(_begin(self.pgconn, loan.beginning))
            loan.has_begun = True
        return await super().wait(gen, *limits, **named)

    async def commit(self) -> None:
        """Refused: Duly commits when the body has returned."""
        self._refuse("commit")
        await super().commit()

    async def rollback(self) -> None:
        """Refused: raise an exception to roll back, or use `transaction()` for a part."""
        self._refuse("rollback")
        await super().rollback()

    async def close(self) -> None:
        """Refused: the connection goes back to where it came from."""
        self._refuse("close")
        await super().close()

    async def set_autocommit(self, value: bool) -> None:
        """Refused: effects that commit by themselves are not tied to the run."""
        self._refuse("set_autocommit")
        await super().set_autocommit(value)

    def _refuse(self, word: str) -> None:
        if self.loan is not None:
            self.loan.refuse(word)


AnyBodyConnection = BodyConnection | AsyncBodyConnection


# --- the end of a transaction, said once for threads and loops ------------------------------------


def check(wire: AnyBodyConnection) -> None:
    match wire.info.transaction_status:
        case TransactionStatus.INTRANS:
            return
        case TransactionStatus.INERROR:
            raise TransactionEnded(FAILED)
        case TransactionStatus.ACTIVE:
            raise TransactionEnded(UNFINISHED)
        case TransactionStatus.IDLE:
            raise TransactionEnded(ENDED)
        case _:
            raise CutOff("the connection to the server is lost")


def ending(operation: Operation[T], spell: Spelling, loan: Loan) -> Generator[Command, list[Row], T]:
    """An operation as the last one of a transaction, in as few messages as can be."""
    steps = operation.steps()
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            value: T = stop.value
            return value
        if statement is MOMENT:
            said = b"execute duly_end" if loan.is_prepared else last_words(spell)
            ((mark, *_),) = found = yield Command(b"savepoint duly_end; " + said)
            check_mark(mark, loan)
            rows = [row[OWN_WORDS:] for row in found]
        else:
            rows = yield Command(spell(statement.text), statement.parameters)


def finishing(ends: Sequence[Statement], spell: Spelling, loan: Loan) -> list[Part]:
    """The end of a run and the COMMIT after it as one message: three round trips less for every run.

    What fails before the COMMIT leaves the transaction where the body left it, at the savepoint.
    """
    lock = str(LOCK_PATIENCE // timedelta(milliseconds=1))
    said = [Statement(FINISH, {"mark": loan.mark, "lock": lock}), *ends]
    numbered = [(spell.numbered(text), given) for text, given in said]
    parts = [(statement, statement.values(given)) for statement, given in numbered]
    return [word(b"savepoint duly_end"), *parts, word(COMMIT)]


def has_word(wire: AnyBodyConnection) -> bool:
    """The server said something unasked, perhaps that it ended an idle transaction."""
    if not hasattr(select, "poll"):  # on Windows
        return bool(select.select([wire.pgconn.socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(wire.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def last_words(spell: Spelling) -> bytes:
    """Asked once at the end of each transaction; prepared where that can be."""
    lock = str(LOCK_PATIENCE // timedelta(milliseconds=1))
    return spell.script(LAST_WORDS, lock=lock) + spell.script(ARRIVAL, clock=CLOCK).strip()[len("select ") :]


def check_mark(mark: object, loan: Loan) -> None:
    """A transaction without our mark is not the one that we began."""
    if mark != loan.mark:
        raise TransactionEnded(ENDED)


@contextmanager
def telling() -> Generator[None, None, None]:
    """What an error at the end means for the run."""
    try:
        yield
    except Exception as error:
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        if isinstance(cause, errors.IdleInTransactionSessionTimeout):
            raise IdledOut(str(cause).strip()) from error
        if isinstance(cause, psycopg.Error) and is_conflict(cause):
            raise Conflict(str(cause).strip()) from error
        if isinstance(cause, psycopg.Error) and is_cut_off(cause):
            raise CutOff(str(cause).strip()) from error
        raise


# --- COMMIT ---------------------------------------------------------------------------------------


def committing(pgconn: Any) -> Generator[Any, Any, bytes]:
    """Say COMMIT; answers what the server has done, which is not always that."""
    pgconn.send_query(COMMIT)
    (result,) = yield from _answers(pgconn)
    said: bytes = result.command_status
    return said


def check_committed(said: bytes) -> None:
    """A server that is told to commit a failed transaction rolls it back, without an error."""
    if said != b"COMMIT":
        raise TransactionEnded(FAILED)


@contextmanager
def telling_of_commit() -> Generator[None, None, None]:
    """What an error at COMMIT means: only a server that answered "no" has certainly rolled back."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, errors.IdleInTransactionSessionTimeout):
            raise IdledOut(str(error).strip()) from error
        if is_conflict(error):
            raise Conflict(str(error).strip()) from error
        if isinstance(error, psycopg.Error) and error.sqlstate is not None and not is_cut_off(error):
            raise
        raise CommitUnknown(str(error).strip() or type(error).__name__) from error
