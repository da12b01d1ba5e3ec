"""What may be passed as `connection=` is known to a type checker, which reads this file with the others."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from duly import Duly
from duly.errors import WrongConnection

app = Duly("memory://")


@app.task
def send_receipt(order: int) -> None: ...


def every_kind_is_accepted(
    bare: sqlite3.Connection | psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
    alchemy: Connection | Session | scoped_session[Session] | AsyncConnection | AsyncSession,
) -> None:
    """For the type checker alone."""
    send_receipt.using(connection=bare)
    send_receipt.using(connection=alchemy)
    send_receipt.using(connection=None)


ENGINE: Final[Engine] = create_engine("sqlite://")


def test_an_engine_is_an_error_for_the_type_checker_and_when_it_runs() -> None:
    using = send_receipt.using(connection=ENGINE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    with pytest.raises(WrongConnection):
        using.enqueue(1)
