"""exchange: end what is simply done and lend what is ready, in one statement.

A statement gives up the interpreter several times, and beside a busy event loop each return waits for it. Of
three long ones in a row the loop ran beside none: they waited while it was at work, and it had nothing to do
while they were.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from duly.stores.drive import Lengthy, Statement, Steps
from duly.stores.sqlite.operations.texts import statements

SQL = statements("exchange")

PROGRAM: Final = re.sub(
    r":(\w+)", r"new.\1", SQL["program"].format(settle=statements("settle"), claim=statements("claim"))
)
"""The statements that would be said one by one, with words in the place of their parameters."""

PAUSE: Final = 7
"""Turns that are taken step by step, without a try, after an end that needed a decision.

Where jobs wait for one another by key, most turns have one: to undo each took a fifth to a third longer.
"""


class Undecided(Exception):
    """Some of the ends need a decision: nothing was changed."""


def exchange(words: Mapping[str, Any]) -> Steps[None]:
    """All of it, or `Undecided`."""
    try:
        yield from _said(words)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        yield Statement(SQL["words"])  # the first time on this connection
        yield Statement(PROGRAM)
        yield from _said(words)


def _said(words: Mapping[str, Any]) -> Steps[None]:
    try:
        yield Lengthy(SQL["say"], words)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_TRIGGER:
            raise
        raise Undecided from error
