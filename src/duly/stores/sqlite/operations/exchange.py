"""exchange: end what is simply done and lend what is ready, in one statement.

A statement gives up the interpreter several times, and beside a busy event loop each return waits for it. Of
three long ones in a row the loop ran beside none: they waited while it was at work, and it had nothing to do
while they were. SQLite performs several as one in a trigger only. This one is temporary: it belongs to a
connection, not to the file.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from duly.stores.drive import Lengthy, Statement, Steps
from duly.stores.sqlite.operations.texts import statements

WORDS: Final = """
create temp view if not exists duly_words as
select null as loans, null as ends, null as now, null as is_free, null as generations, null as nonce,
    null as worker
"""
"""What the program is told. Nothing is stored there."""

SAY: Final = """
insert into duly_words (loans, ends, now, is_free, generations, nonce, worker)
values (:loans, :ends, :now, :is_free, :generations, :nonce, :worker)
"""

ALL_OR_NONE: Final = "select raise(abort, 'an end needs a decision') where changes() <> :ends"
"""Follows `record_done` at once. What it aborts is the whole statement."""

_PARAMETER: Final = re.compile(r":(\w+)")


class Undecided(Exception):
    """Some of the ends need a decision: nothing was changed."""


class Caution:
    """After an end that needed a decision, some turns are taken step by step without a try.

    Where jobs wait for one another by key, most turns have one: to undo each took a fifth to a third longer.
    """

    TURNS: Final = 8

    def __init__(self) -> None:
        self._left = 0

    def rise(self) -> None:
        """One of the ends needed a decision."""
        self._left = self.TURNS

    def is_wise(self) -> bool:
        """Whether this turn is one of them."""
        self._left = max(0, self._left - 1)
        return self._left > 0


def exchange(words: Mapping[str, Any]) -> Steps[None]:
    """All of it, or `Undecided`."""
    try:
        yield from _said(words)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        yield Statement(WORDS)  # the first time on this connection
        yield Statement(_program())
        yield from _said(words)


def _said(words: Mapping[str, Any]) -> Steps[None]:
    try:
        yield Lengthy(SAY, words)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_TRIGGER:
            raise
        raise Undecided from error


@cache
def _program() -> str:
    """The statements that would be said one by one, with words in the place of their parameters."""
    settle, lend = statements("settle"), statements("claim")["lend"]
    acts = ";\n".join((settle["record_done"], ALL_OR_NONE, settle["finish_done"], lend))
    told = _PARAMETER.sub(r"new.\1", acts)
    return f"create temp trigger if not exists duly_spoken instead of insert on duly_words begin {told}; end"
