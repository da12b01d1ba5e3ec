"""Operations are descriptions; a driver performs them.

A store operation is a generator that yields statements and receives rows, so the same text serves
sync and async callers, the engine's own connection and the caller's open transaction. Nothing but
a driver touches a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]


class Statement(NamedTuple):
    """One statement for the store: its text (SQL, or a script's name) and its parameters."""

    text: str
    parameters: Any = ()


class Trial(Statement):
    """One that may fail, which the operation then hears of: an SQLite store throws the error into it."""


class Lengthy(Trial):
    """The long one of an operation, whose caller does something else meanwhile: an SQLite store says when."""


class Counted(Statement):
    """One that changes rows: an SQLite store answers how many, and the number of the row added last."""


class Verbatim(Statement):
    """One whose answer the operation reads itself: a Redis store hands it over as the text that came."""


Steps = Generator[Statement, Sequence[Row], T]


@dataclass(slots=True)
class Operation(Generic[T]):
    """A named piece of work for one transaction. `steps` makes it anew, so a driver may try again.

    Nobody changes one; frozen, it would take three times as long to make, with every request.
    """

    name: str
    steps: Callable[[], Steps[T]]
    writes: bool = True
    meanwhile: Callable[[], object] | None = None
    """What the caller does while the store is at work, where a driver can tell: never more than is quick, and
    perhaps not at all or again, with another try. In Python one waits for one's own threads, too. A true
    answer asks for another call, should the store be at work a moment later."""
    is_light: bool = field(default=False, kw_only=True)
    """Its first statement is `Counted`, and all it does unless it changes nothing: an SQLite store need not
    be able to undo it, nor begin a transaction for it."""


def together(name: str, first: Operation[Any], second: Operation[Any]) -> Operation[tuple[Any, Any]]:
    """Two operations in one transaction, the second seeing what the first wrote."""

    def steps() -> Steps[tuple[Any, Any]]:
        one = yield from first.steps()
        two = yield from second.steps()
        return one, two

    return Operation(name, steps, writes=first.writes or second.writes)
