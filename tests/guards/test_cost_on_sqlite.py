"""What single writes cost on SQLite, in statements: each gives up the interpreter, and takes it again."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from duly import Duly, Run
from duly.stores.sqlite import pen
from duly.stores.sqlite.connection import connect
from duly.transactions import sqlite as bodies

Connect = Callable[..., sqlite3.Connection]

JOBS: Final = 20
MOST_TO_ENQUEUE: Final = 1
"""The row together with its number and every look, which commits itself."""
MOST_TO_END: Final = 4
"""Of an exactly-once job: begin, the body's own statement, the end, commit."""


@pytest.fixture
def app(tmp_path: Path) -> Duly:
    return Duly(f"sqlite:///{tmp_path / 'duly.db'}")


def counting(connect: Connect, seen: Counter[str]) -> Connect:
    def count(text: str) -> None:
        seen[text.split(maxsplit=1)[0]] += 1

    def connect_and_count(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*given, **options)
        connection.set_trace_callback(count)
        return connection

    return connect_and_count


def test_a_single_request_is_stored_in_one_statement(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    monkeypatch.setattr(pen, "connect", counting(connect, seen))

    @app.task
    def nothing(number: int) -> None: ...

    nothing.enqueue(0)  # which opens the file
    seen.clear()

    for number in range(JOBS):
        nothing.enqueue(number)

    assert seen.total() == MOST_TO_ENQUEUE * JOBS, seen
    app.close()


def test_an_exactly_once_job_ends_in_four_statements(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    monkeypatch.setattr(bodies, "connect", counting(connect, seen))

    @app.task(delivery="exactly_once")
    def effect(run: Run, number: int) -> None:
        run.connection.execute("select ?", (number,))

    effect.enqueue_many([((number,), {}) for number in range(JOBS)])
    app.run(burst=True)
    app.close()

    assert seen["COMMIT"] == JOBS
    assert seen.total() <= MOST_TO_END * JOBS, seen
