"""What an exit code means: one table, documented in docs/reference/cli.md."""

from __future__ import annotations

from enum import IntEnum

from duly.errors import (
    DefinitionError,
    DulyError,
    MissingExtra,
    StoreError,
    UnknownStore,
)


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    """Done as asked. For a worker: stopped, idle with --burst, or told that newer code has taken over."""
    NO = 1
    """The command ran and the answer is no: not found, refused, a check failed."""
    USAGE = 2
    """Nothing was tried: wrong words, a module or object that is not there, a setting that cannot be."""
    STORE = 3
    """The store cannot be reached, read or written, or its schema does not serve this code."""
    DIED = 70
    """The worker ended by an internal error; a supervisor should start it again."""
    INTERRUPTED = 130
    """Ctrl-C in a command that was not a worker."""


class UsageError(DulyError):
    """The command was called in a way that cannot work."""


class Refusal(DulyError):
    """The command ran, and what was asked for could not be done."""


def is_expected(error: Exception) -> bool:
    """Whether its message says all there is to say; anything else is a defect and shows its traceback."""
    return isinstance(error, DulyError)


def exit_code_of(error: Exception) -> Exit:
    """Which line of the table an error belongs to."""
    match error:
        case UsageError() | DefinitionError() | UnknownStore() | MissingExtra():
            return Exit.USAGE
        case StoreError():
            return Exit.STORE
        case _:
            return Exit.NO
