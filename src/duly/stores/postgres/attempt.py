"""One operation, from its first try to its answer: what is said to the server, and what is tried again.

Neither waits nor talks: a driver, with or without asyncio, sends the commands and sleeps the pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import psycopg

from duly.ids import spread
from duly.stores.drive import Operation, Row
from duly.stores.postgres.address import Address
from duly.stores.postgres.faults import (
    STALE_PLANS,
    explained,
    is_conflict,
    is_cut_off,
    unanswered,
)
from duly.stores.postgres.operations import Errand
from duly.stores.postgres.operations.again import Needs, Repeat
from duly.stores.postgres.operations.moment import MOMENT
from duly.stores.postgres.operations.swift import Message
from duly.stores.postgres.spelling import Manner, Spelling

T = TypeVar("T")

CONFLICTS: Final = 20
REPEATS: Final = 20
RECONNECTIONS: Final = 2


class Command(NamedTuple):
    """What a driver sends."""

    text: bytes
    parameters: Any = None


def transaction(
    operation: Operation[T], spell: Spelling, beginning: bytes, absorb: Callable[[], None] | None
) -> Generator[Command, list[Row], T]:
    """The commands of one try. `absorb` is called when offered requests wait to be placed first."""
    ((now, newest_lane, has_intake, door),) = yield Command(beginning)
    if has_intake and absorb is not None:
        absorb()
    steps = operation.steps()
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            yield COMMIT
            value: T = stop.value
            return value
        rows = [(now, newest_lane, False, door)]
        if statement is not MOMENT:
            rows = yield Command(spell(statement.text), statement.parameters)


COMMIT: Final = Command(b"commit")


def message_of(operation: Operation[T]) -> Message[T] | None:
    """How to say it at once, if there is a way; raises what must be seen to before."""
    return operation.message() if isinstance(operation, Errand) and operation.message else None


def message_if_ready(operation: Operation[T]) -> Message[T] | None:
    """After that was seen to; whoever closes the store may have it forget again what was learnt."""
    with suppress(Needs):
        return message_of(operation)
    return None


class Attempt(Generic[T]):
    """The tries of one operation."""

    def __init__(
        self,
        operation: Operation[T],
        address: Address,
        spell: Spelling,
        manner: Manner,
        absorb: Operation[int],
    ) -> None:
        self._operation = operation
        self._address = address
        self._spell = spell
        self._manner = manner
        self._absorb = absorb
        self._awaits_intake = isinstance(operation, Errand) and operation.absorbs
        self._may_repeat = isinstance(operation, Errand) and operation.may_repeat
        self._conflicts = self._repeats = self._reconnections = 0

    def commands(self, *, is_greeted: bool) -> Generator[Command, list[Row], T]:
        """A fresh try."""
        beginning = self._manner.beginning(is_greeted=is_greeted, writes=self._operation.writes)
        absorb = self._ask_for_intake if self._awaits_intake else None
        return transaction(self._operation, self._spell, beginning, absorb)

    def _ask_for_intake(self) -> None:
        self._awaits_intake = False  # somebody else may be placing the rest; that is not waited for
        raise Needs(self._absorb, lambda _: None)

    def pause(self, error: Exception, *, is_committing: bool) -> float:
        """How long to wait before the next try, or the error that ends the attempt."""
        if isinstance(error, Repeat) and self._repeats < REPEATS:
            self._repeats += 1
            return 0.0
        if is_conflict(error) and self._conflicts < CONFLICTS:
            self._conflicts += 1
            if isinstance(self._operation, Errand):
                self._operation.mood.is_wary = True
            return float(min(0.05, 0.002 * 2**self._conflicts) * spread())
        if isinstance(error, STALE_PLANS) and self._reconnections < RECONNECTIONS:
            self._reconnections += 1
            return 0.0
        if is_committing and not self._may_repeat and not is_conflict(error):
            raise unanswered(error, self._address, self._operation.name) from error
        if is_cut_off(error) and self._reconnections < RECONNECTIONS:
            self._reconnections += 1
            return 0.0
        if isinstance(error, psycopg.Error | UnicodeEncodeError | Repeat):
            raise explained(error, self._address, self._operation.name) from error
        raise error
