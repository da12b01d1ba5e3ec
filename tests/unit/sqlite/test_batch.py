"""One transaction for several operations, on a connection of the test's own: what a commit may do."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sqlite.notes import add, add_then_raise, ask, seen_from_outside

from duly.errors import StoreUnavailable
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.sqlite.batch import Batch
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.faults import Identity
from duly.stores.sqlite.tickets import Ticket


class Line:
    """A queue without threads."""

    def __init__(self, *tickets: Ticket) -> None:
        self.waiting = deque(tickets)

    def take(self, taken: list[Ticket], *, joins: bool) -> Ticket | None:
        if not self.waiting or (joins and self.waiting[0].is_alone):
            return None
        taken.append(self.waiting[0])
        return self.waiting.popleft()

    def put_back(self, tickets: list[Ticket]) -> None:
        self.waiting.extendleft(reversed(tickets))

    def holds(self, ticket: Ticket) -> bool:
        return ticket in self.waiting


@pytest.fixture
def connection(driver: Driver, path: str) -> Iterator[sqlite3.Connection]:
    """Checks foreign keys, because a dangling one is refused only by the commit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("pragma foreign_keys=on")
        made.execute("create table child (number integer references duly_note deferrable initially deferred)")
        yield made


def dangling() -> Ticket:
    return Ticket(ask("insert into child values (404)"))


def run(connection: sqlite3.Connection, path: str, line: Line) -> Batch:
    batch = Batch(connection, line, Identity(path), lambda text: text, timedelta(seconds=1), [])
    try:
        batch.run(lambda: False)
    finally:
        batch.conclude()
    return batch


def test_when_the_commit_fails_everybody_tries_again_alone(connection: sqlite3.Connection, path: str) -> None:
    sound, bad, later = Ticket(add("sound")), dangling(), Ticket(add("later"))
    line = Line(sound, bad, later)

    assert run(connection, path, line).taken == []
    batches = [run(connection, path, line).taken for _ in range(3)]

    assert batches == [[sound], [bad], [later]]
    assert (sound.error, later.error) == (None, None)
    assert "FOREIGN KEY" in str(bad.error)
    assert seen_from_outside(path) == ["sound", "later"]


def test_one_that_must_be_alone_does_not_join_others(connection: sqlite3.Connection, path: str) -> None:
    first, alone, last = Ticket(add("first")), Ticket(add("alone")), Ticket(add("last"))
    alone.is_alone = True
    line = Line(first, alone, last)

    assert [run(connection, path, line).taken for _ in range(3)] == [[first], [alone], [last]]


def light(operation: Operation[Any]) -> Ticket:
    return Ticket(replace(operation, is_light=True))


def test_a_light_one_that_fails_leaves_the_others_alone(connection: sqlite3.Connection, path: str) -> None:
    line = Line(Ticket(add("first")), light(add("light")), twice := light(add("light")), Ticket(add("last")))

    batch = run(connection, path, line)

    assert len(batch.taken) == 4
    assert "UNIQUE" in str(twice.error)
    assert seen_from_outside(path) == ["first", "light", "last"]


def test_a_light_one_that_fails_after_its_statement_is_undone_all_the_same(
    connection: sqlite3.Connection, path: str
) -> None:
    first, bad = Ticket(add("first")), light(add_then_raise("bad"))
    line = Line(first, bad, Ticket(add("last")))

    batches = [run(connection, path, line).taken for _ in range(3)]

    assert [len(taken) for taken in batches] == [1, 1, 1]
    assert "no bad" in str(bad.error)
    assert seen_from_outside(path) == ["first", "last"]


def test_what_follows_the_first_statement_of_a_light_one_is_undone(
    connection: sqlite3.Connection, path: str
) -> None:
    def steps() -> Steps[None]:
        yield Statement("select 1")
        yield Statement("insert into duly_note (text) values ('half')")
        raise ValueError("no more")

    line = Line(Ticket(add("first")), light(Operation("half", steps)), Ticket(add("last")))

    batch = run(connection, path, line)

    assert len(batch.taken) == 3
    assert seen_from_outside(path) == ["first", "last"]


def test_an_interrupt_before_the_commit_undoes_and_tells(connection: sqlite3.Connection, path: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    done, hit = Ticket(add("done")), Ticket(add("hit", before=interrupt))

    with pytest.raises(KeyboardInterrupt):
        run(connection, path, Line(done, hit))

    assert isinstance(done.error, StoreUnavailable)
    assert isinstance(hit.error, StoreUnavailable)
    assert not connection.in_transaction
    assert seen_from_outside(path) == []


def test_an_interrupt_after_the_commit_changes_nothing(connection: sqlite3.Connection, path: str) -> None:
    done = Ticket(add("done"))
    line = Line(done)

    class Interrupted(Identity):
        """The signal arrives at the first thing that happens after the commit."""

        looks = 0

        def verify(self) -> None:
            self.looks += 1
            if self.looks == 2:
                raise KeyboardInterrupt

    batch = Batch(connection, line, Interrupted(path), lambda text: text, timedelta(seconds=1), [])
    with pytest.raises(KeyboardInterrupt):
        batch.run(lambda: False)
    batch.conclude()

    assert done.is_settled
    assert done.error is None
    assert seen_from_outside(path) == ["done"]


def test_an_empty_line_commits_nothing(connection: sqlite3.Connection, path: str) -> None:
    batch = run(connection, path, Line())

    assert not batch.has_committed
    assert not connection.in_transaction
