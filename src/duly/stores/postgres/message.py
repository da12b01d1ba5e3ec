"""One message of several statements, on a connection that leads to the server itself.

Below psycopg's cursors, which would send one statement after the other: the statements are prepared once for
a connection, their parameters travel as text, and one word at the end (Sync) has the server commit them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.generators import execute, fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus

from duly.stores.drive import Row

Conversation = Generator[Any, Any, list[list[Row]]]


class Numbered(NamedTuple):
    """A statement as the server wants it: its parameters by number, and which name each of them had."""

    name: bytes
    text: bytes
    parameters: tuple[str, ...]

    def values(self, given: Mapping[str, Any]) -> list[bytes | None]:
        """The parameters in order, as text."""
        return [_as_text(given[name]) for name in self.parameters]


_PARAMETER: Final = re.compile(rb"%\((\w+)\)s")


def numbered(name: str, text: bytes) -> Numbered:
    """From the spelling of statements with named parameters, in which a percent sign is written twice."""
    places: dict[bytes, int] = {}
    spelled = _PARAMETER.sub(
        lambda found: b"$%d" % places.setdefault(found[1], len(places) + 1), text
    ).replace(b"%%", b"%")
    return Numbered(name.encode(), spelled, tuple(place.decode() for place in places))


def _as_text(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()


Part = tuple[Numbered, list[bytes | None]]


def word(text: bytes) -> Part:
    """A command without parameters, which nobody prepares."""
    return Numbered(b"", text, ()), []


def preparing(pgconn: Any, statement: Numbered) -> Generator[Any, Any, None]:
    """Leave a statement with the server, for the life of the connection."""
    pgconn.send_prepare(statement.name, statement.text)
    _check((yield from execute(pgconn)))


def saying(pgconn: Any, connection: Any, parts: Sequence[Part]) -> Conversation:
    """Send all of them at once; the rows of each, or the error of the one that failed."""
    pgconn.enter_pipeline_mode()
    for statement, values in parts:
        if statement.name:
            pgconn.send_query_prepared(statement.name, values)
        else:
            pgconn.send_query_params(statement.text, values)
    pgconn.pipeline_sync()
    yield from send(pgconn)
    answers: list[Any] = []
    for _ in range(len(parts) + 1):  # the last answers the Sync: all of it is committed
        answers += yield from fetch_many(pgconn)
        if pgconn.status != ConnStatus.OK:  # its last word, if that was one, came before any commit
            _check(answers)
    pgconn.exit_pipeline_mode()
    _check(answers)
    return [_rows(answer, connection) for answer in answers[:-1]]


def _check(answers: Sequence[Any]) -> None:
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer)


def _rows(answer: Any, connection: Any) -> list[Row]:
    if not answer.nfields:
        return []
    reader = Transformer(connection)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)
