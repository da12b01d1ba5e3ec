"""Connections to PostgreSQL that a body may work on but not end, and what is said at their end.

A connection begins its transaction by itself at the body's first statement, in the same message with two
settings that end with it: how long it may idle, and a mark by which we know it again. At the end the marks
are compared, so a body that committed by itself is found out, whatever way it took.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from duly.errors import LeaseLost, TransactionEnded, WrongConnection
from duly.stores.drive import Operation, Row
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.caller import ARRIVAL
from duly.stores.postgres.faults import is_conflict, is_cut_off
from duly.stores.postgres.message import Numbered
from duly.stores.postgres.operations.finish import CONFIRM, END
from duly.stores.postgres.operations.moment import MOMENT
from duly.stores.postgres.spelling import CLOCK, LOCK_PATIENCE, Spelling
from duly.stores.postgres.wire import TICK, Acquaintance, AsyncWire, Wire
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
_LOCK: Final = str(LOCK_PATIENCE // timedelta(milliseconds=1))
MARK: Final = b"select current_setting('duly.run', true)"
UNDO: Final = b"rollback to savepoint duly_end"
COMMIT: Final = b"commit"
QUIET: Final = 0.002
"""Seconds after its last word in which a server is not looked at again."""


FINISH: Final = """
select 1 / (current_setting('duly.run', true) = %(mark)s::text
        and current_setting('transaction_isolation') = 'read committed')::int4,
    set_config('lock_timeout', '{lock}', true),
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

    def must_begin(self, pgconn: Any) -> bool:
        """Whether a transaction must be opened before the body's next word goes out."""
        self.check_process()
        if self.is_ours or pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        if self.has_begun:
            raise TransactionEnded(ENDED)
        if self.is_abandoned:
            raise LeaseLost(ABANDONED)
        return True

    def check_process(self) -> None:
        """A fork has no say."""
        if self.pid != os.getpid():
            raise WrongConnection(FORKED.format(pid=self.pid))

    def refuse(self, word: str) -> None:
        """Some things only we may do."""
        if not self.is_ours:
            raise TransactionEnded(NOT_YOURS.format(word=f"connection.{word}()"))


def asking(pgconn: Any, text: bytes) -> Generator[Any, Any, list[Any]]:
    """Say something without parameters; answers the results, or raises the error among them.

    The driver's own way lets go of the interpreter two or three times for each result, and with twenty
    bodies each of those wakes another thread: that took more of the processor than all the rest of a run.
    """
    pgconn.send_query(text)
    while pgconn.flush():
        if ((yield Wait.RW) or Ready.NONE) & Ready.R:  # nothing, where somebody else waits from here on
            pgconn.consume_input()
    results: list[Any] = []
    try:
        while (result := (yield from _next_result(pgconn))) is not None:
            results.append(result)
    except psycopg.Error:
        _check(results)  # of a server that hangs up the last word counts
        raise
    _check(results)
    return results


def _next_result(pgconn: Any) -> Generator[Any, Any, Any]:
    while pgconn.is_busy():
        if (yield Wait.R):
            pgconn.consume_input()
    return pgconn.get_result()


def _check(results: Sequence[Any]) -> None:
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)


class Heard(Acquaintance):
    """Knows when the server last spoke: so soon after that it has nothing to say unasked.

    A look lets go of the interpreter, and with twenty bodies another thread takes it: two looks a run took a
    tenth of what a run costs. A server that hangs up so soon is found out by the next word: at worst a COMMIT
    goes without its answer, which is looked up.
    """

    heard_at: float = 0.0

    @property
    def has_word(self) -> bool:
        """The server said something unasked, perhaps that it ended an idle transaction."""
        return time.monotonic() > self.heard_at + QUIET and self._is_readable()

    @property
    def has_nothing_to_say(self) -> bool:
        """Whether one that was kept is still good."""
        return self.is_fit and not self.has_word


class BodyConnection(Heard, Wire):
    """What `run.connection` is: a psycopg connection that begins by itself and is not the body's to end."""

    loan: Loan | None = None

    def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does."""
        loan = self.loan
        if loan is not None and loan.must_begin(self.pgconn):
            self._asked(loan.beginning)
            loan.has_begun = True
        answer = super().wait(gen, *limits, **named)
        self.heard_at = time.monotonic()
        return answer

    def ask(self, text: bytes) -> list[Any]:
        """What only we say: the results of a message without parameters."""
        if self.loan is not None:
            self.loan.check_process()
        with self.lock:
            results = self._asked(text)
            self.heard_at = time.monotonic()
            return results

    def _asked(self, text: bytes) -> list[Any]:
        """Wait ourselves, which the driver does for 8 µs more; it waits for what takes longer."""
        steps, look = asking(self.pgconn, text), self.look
        try:
            if next(steps) == Wait.R and look is not None and look.poll(1000 * TICK):
                steps.send(Ready.R)
        except StopIteration as stop:
            found: list[Any] = stop.value
            return found
        results: list[Any] = super().wait(steps)
        return results

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


class AsyncBodyConnection(Heard, AsyncWire):
    """The same on an event loop."""

    loan: Loan | None = None

    async def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does."""
        loan = self.loan
        if loan is not None and loan.must_begin(self.pgconn):
            await super().wait(asking(self.pgconn, loan.beginning))
            loan.has_begun = True
        answer = await super().wait(gen, *limits, **named)
        self.heard_at = time.monotonic()
        return answer

    async def ask(self, text: bytes) -> list[Any]:
        """What only we say: the results of a message without parameters."""
        async with self.lock:
            results: list[Any] = await self.wait(asking(self.pgconn, text))
            return results

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


class Finishing:
    """The end of a plain run and the COMMIT after it as one message: three round trips less for every run.

    What fails before the COMMIT leaves the transaction where the body left it, at the savepoint.
    """

    def __init__(self, spell: Spelling) -> None:
        finish = FINISH.replace("{lock}", _LOCK)
        self.statements = [spell.numbered(text) for text in (finish, END, CONFIRM)]
        self.names = frozenset(statement.name for statement in self.statements)
        """What the server must have been given."""
        said = "; ".join(map(_executing, self.statements))
        self._text = f"savepoint duly_end; {said}; commit"

    def __call__(self, mark: str, fence: Mapping[str, int | None]) -> bytes:
        """What to say."""
        given = {name: "null" if value is None else value for name, value in fence.items()}
        return (self._text % {"mark": f"'{mark}'", **given}).encode()


def _executing(statement: Numbered) -> str:
    places = ", ".join(f"%({name})s" for name in statement.parameters)
    return f"execute {statement.name.decode()}({places})"


def last_words(spell: Spelling) -> bytes:
    """Asked once at the end of each transaction; prepared where that can be."""
    return spell.script(LAST_WORDS, lock=_LOCK) + spell.script(ARRIVAL, clock=CLOCK).strip()[len("select ") :]


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


def check_committed(results: Sequence[Any]) -> None:
    """A server that is told to commit a failed transaction rolls it back, without an error."""
    if results[-1].command_status != b"COMMIT":
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
