"""Operations said in one message, for the many times when nothing is out of the ordinary.

The server takes the statements of a message as one transaction of its own: it commits them at the end, or
forgets them all when one fails. So a statement that finds something it was not made for fails on purpose
(it divides by zero), or does nothing and says so; then the operation is performed in the ordinary way. A
conversation takes five messages for what one does, and each costs both sides more than a job does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from duly.clock import Clock
from duly.stores.drive import Operation, Row, Statement
from duly.stores.postgres.operations.lanes import Book
from duly.stores.postgres.operations.moment import clock_hands

T = TypeVar("T")


class Whole(NamedTuple, Generic[T]):
    """The answer, when everything was done."""

    value: T


class Rest(NamedTuple, Generic[T]):
    """What was not for a message is done by an ordinary operation; `join` makes the answer of both."""

    operation: Operation[Any]
    join: Callable[[Any], T]


class Message(NamedTuple, Generic[T]):
    """Statements for one message, and how their answers are read once they are committed."""

    statements: tuple[Statement, ...]
    read: Callable[[Sequence[list[Row]]], Whole[T] | Rest[T]]


class Outlook(NamedTuple):
    """What is known before anything was asked."""

    book: Book
    clock: Clock | None
    level: int | None

    def given(self) -> dict[str, Any]:
        """The parameters by which a statement finds out whether all is as we know it."""
        hands = (None, None) if self.clock is None else clock_hands(self.clock)
        return {"now": hands[0], "boot": hands[1], "level": 2**31 - 1 if self.level is None else self.level}


def as_text(value: Any) -> bytes | None:
    """A parameter as it travels in a message; what is made bytes beforehand travels as it is."""
    if value is None or value.__class__ is bytes:
        return value
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()


class Texts(dict[str, bytes | None]):
    """Parameters all of which are ready to travel."""


def as_texts(given: Mapping[str, Any]) -> dict[str, bytes | None]:
    """Parameters that many messages have in common, made ready once."""
    return {name: as_text(value) for name, value in given.items()}
