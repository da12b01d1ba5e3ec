"""One message of several statements, on a connection that leads to the server itself.

Below psycopg's cursors, which would send one statement after the other: the statements are prepared once for
a connection, their parameters travel as text, and one word at the end (Sync) has the server commit them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from psycopg import errors
from psycopg.generators import execute, fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus

from duly.stores.drive import Row
from duly.stores.postgres.operations.swift import Texts, as_text

Conversation = Generator[Any, Any, list[list[Row]]]
Values = list[bytes | None]


class Numbered(NamedTuple):
    """A statement as the server wants it: its parameters by number, and which name each of them had."""

    name: bytes
    text: bytes
    parameters: tuple[str, ...]

    def part(self, given: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> Part:
        """With its parameters, or with how to make them when it is its turn to be sent."""
        if callable(given):
            return self, lambda: self.values(given())
        return self, self.values(given)

    def values(self, given: Mapping[str, Any]) -> Values:
        """The parameters in order, as text."""
        if given.__class__ is Texts:
            return [given[name] for name in self.parameters]
        return [as_text(given[name]) for name in self.parameters]


_PARAMETER: Final = re.compile(rb"%\((\w+)\)s")


def numbered(name: str, text: bytes) -> Numbered:
    """From the spelling of statements with named parameters, in which a percent sign is written twice."""
    places: dict[bytes, int] = {}
    spelled = _PARAMETER.sub(
        lambda found: b"$%d" % places.setdefault(found[1], len(places) + 1), text
    ).replace(b"%%", b"%")
    return Numbered(name.encode(), spelled, tuple(place.decode() for place in places))


Part = tuple[Numbered, Values | Callable[[], Values]]


def word(text: bytes) -> Part:
    """A command without parameters, which nobody prepares."""
    return Numbered(b"", text, ()), []


def preparing(pgconn: Any, statement: Numbered) -> Generator[Any, Any, None]:
    """Leave a statement with the server, for the life of the connection."""
    pgconn.send_prepare(statement.name, statement.text)
    _check((yield from execute(pgconn)))


def saying(
    pgconn: Any, reader: Any, parts: Sequence[Part], meanwhile: Callable[[], object] | None = None
) -> Conversation:
    """Send all of them at once; the rows of each, or the error of the one that failed."""
    if len(parts) == 1:
        return (yield from _saying_one(pgconn, reader, *parts[0], meanwhile))
    pgconn.enter_pipeline_mode()
    for statement, values in parts:
        hand_over(pgconn, statement, values)
        if callable(values):  # the server begins with it while the next is being made
            yield from send(pgconn)
    pgconn.pipeline_sync()
    yield from send(pgconn)
    if meanwhile is not None:
        meanwhile()
    answers: list[Any] = []
    for _ in range(len(parts) + 1):  # the last answers the Sync: all of it is committed
        answers += yield from fetch_many(pgconn)
        if pgconn.status != ConnStatus.OK:  # its last word, if that was one, came before any commit
            _check(answers)
    pgconn.exit_pipeline_mode()
    _check(answers)
    return [_rows(answer, reader) for answer in answers[:-1]]


def _saying_one(
    pgconn: Any,
    reader: Any,
    statement: Numbered,
    values: Values | Callable[[], Values],
    meanwhile: Callable[[], object] | None,
) -> Conversation:
    """One alone brings its own Sync, and the driver awaits its answers in C: a third less for us to do.

    They are complete: where the commit failed, its error follows the rows.
    """
    hand_over(pgconn, statement, values)
    if meanwhile is not None:
        yield from send(pgconn)
        meanwhile()
    answers = yield from fetch_many(pgconn) if meanwhile else execute(pgconn)
    return [read(answers, reader)]


def read(answers: Sequence[Any], reader: Any) -> list[Row]:
    """The rows that answer a statement which was sent alone."""
    _check(answers)
    return _rows(answers[0], reader)


def hand_over(pgconn: Any, statement: Numbered, values: Values | Callable[[], Values]) -> None:
    """Leave a statement with the library, which sends what it can."""
    if callable(values):
        values = values()
    if statement.name:
        pgconn.send_query_prepared(statement.name, values)
    else:
        pgconn.send_query_params(statement.text, values)


def _check(answers: Sequence[Any]) -> None:
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer)


def _rows(answer: Any, reader: Any) -> list[Row]:
    if not answer.nfields:
        return []
    reader.set_pgresult(answer)
    rows: list[Row] = reader.load_rows(0, answer.ntuples, tuple)
    reader.set_pgresult(None)  # or it would keep the answer until the next one
    return rows
