"""The users: threads that change documents at random, by a seed, and write down what they committed.

Each total is written once and never again, so a total names a version. `pen` is written first in every
transaction: its revision tells the order in which the changes of one key were committed.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from tests.chaos.journal import Journal

PATIENCE: Final = 60.0
ELSEWHERE: Final = 1_000_000
"""A row whose primary key changes goes there, and back."""
ACTS: Final = {
    "pay": 44, "unpay": 9, "note": 12, "idle": 6, "delete": 5, "move": 3,
    "roll_back": 6, "savepoint": 6, "bulk": 5, "late": 4,
}  # fmt: skip


class Database:
    """A connection of the user's, whatever the database."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self._connection: Any = (
            sqlite3.connect(url.removeprefix("sqlite:///"), timeout=PATIENCE, isolation_level=None)
            if self.is_sqlite
            else psycopg.connect(url, autocommit=True)
        )

    def say(self, text: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(text)
        return list(cursor.fetchall()) if cursor.description else []

    def begin(self) -> None:
        self.say("begin immediate" if self.is_sqlite else "begin")

    def close(self) -> None:
        self._connection.close()


class Writer(threading.Thread):
    """One user."""

    def __init__(
        self, number: int, url: str, seed: int, documents: int, rate: float, journal: Journal
    ) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._url = url
        self._random = random.Random(f"{seed} {number}")
        self._documents = documents
        self._rate = rate
        self._journal = journal
        self._totals = itertools.count((number + 1) * 10_000_000)
        self._is_over = threading.Event()
        self.error: BaseException | None = None
        self.longest = 0.0
        """Seconds that the slowest change of a document took."""

    def stop(self) -> None:
        self._is_over.set()

    def run(self) -> None:
        self._database = Database(self._url)
        try:
            while not self._is_over.wait(self._random.expovariate(self._rate)):
                act = self._random.choices(list(ACTS), list(ACTS.values()))[0]
                self._perform(act)
        except BaseException as error:
            self.error = error
        finally:
            self._database.close()

    # what users do

    def _perform(self, act: str) -> None:
        key = self._key()
        match act:
            case "pay":
                self._transaction({key: self._paid})
            case "bulk":
                self._transaction(dict.fromkeys(sorted({self._key() for _ in range(20)}), self._paid))
            case "late":
                pause = self._random.uniform(0.05, 0.2 if self._database.is_sqlite else 1.5)
                self._transaction({key: self._paid}, pause=pause)
            case "unpay":
                self._transaction({key: lambda key: f"update orders set status = 'new' where id = {key}"})
            case "note":
                self._transaction({key: lambda key: f"update orders set note = note || '.' where id = {key}"})
            case "idle":
                self._transaction({key: lambda key: f"update orders set total = total where id = {key}"})
            case "delete":
                self._transaction({key: lambda key: f"delete from orders where id = {key}"})
            case "move":
                self._move(key)
            case "roll_back":
                self._roll_back(key)
            case _:
                self._roll_back_to_savepoint(key)

    def _key(self) -> int:
        return self._random.randrange(1, self._documents + 1)

    def _paid(self, key: int) -> str:
        return (
            f"insert into orders values ({key}, 'paid', {next(self._totals)}, '') "
            "on conflict (id) do update set status = 'paid', total = excluded.total"
        )

    def _say(self, text: str) -> list[tuple[Any, ...]]:
        return self._database.say(text)

    def _timed(self, text: str) -> None:
        """What Duly's triggers hang on: whoever waits for other users has done so before, at the pen."""
        began = time.monotonic()
        self._say(text)
        self.longest = max(self.longest, time.monotonic() - began)

    def _transaction(self, statements: dict[int, Callable[[int], str]], pause: float = 0.0) -> None:
        self._database.begin()
        changes = [self._change(key, write(key)) for key, write in statements.items()]
        time.sleep(pause)
        self._say("commit")
        self._journal.write("commit", changes=changes)

    def _change(self, key: int, statement: str | None) -> dict[str, Any]:
        """One key: its revision, what it is now, and how many effects were committed before that."""
        ((revision,),) = self._say(
            f"update pen set revision = revision + 1 where id = {key} returning revision"
        )
        if statement is not None:
            self._timed(statement)
        found = self._say(f"select status, total from orders where id = {key}")
        ((effects,),) = self._say(f"select count(*) from effect where id = {key}")
        row = list(found[0]) if found else None
        return {"key": key, "revision": revision, "row": row, "effects": effects}

    def _move(self, key: int) -> None:
        """From one primary key to the other, with a new total, as one statement."""
        self._database.begin()
        self._say(f"select 1 from pen where id = {key}" + ("" if self._database.is_sqlite else " for update"))
        is_here = bool(self._say(f"select 1 from orders where id = {key}"))
        there = key + ELSEWHERE
        self._say(f"update pen set revision = revision where id in ({key}, {there})")
        if not is_here and not self._say(f"select 1 from orders where id = {there}"):
            self._say("rollback")
            return
        before, after = (key, there) if is_here else (there, key)
        self._say(f"delete from orders where id = {after}")
        self._say(f"update orders set id = {after}, total = {next(self._totals)} where id = {before}")
        changes = [self._change(before, None), self._change(after, None)]
        self._say("commit")
        self._journal.write("commit", changes=changes)

    def _roll_back(self, key: int) -> None:
        self._database.begin()
        self._change(key, self._paid(key))
        self._say("rollback")

    def _roll_back_to_savepoint(self, key: int) -> None:
        """A version inside a savepoint that goes, and one outside that stays."""
        self._database.begin()
        change = self._change(key, f"update orders set note = note || '-' where id = {key}")
        self._say("savepoint one")
        self._say(self._paid(key))
        self._say("rollback to savepoint one")
        self._say("commit")
        self._journal.write("commit", changes=[change])


def prepare(url: str, statements: tuple[str, ...], documents: int, journal: Journal) -> None:
    """The tables, and a first version of every document."""
    database = Database(url)
    for statement in statements:
        database.say(statement)
    database.begin()
    changes: list[dict[str, Any]] = []
    for key in range(1, documents + 1):
        database.say(f"insert into pen values ({key}, 1), ({key + ELSEWHERE}, 1)")
        database.say(f"insert into orders values ({key}, 'paid', {key}, '')")
        changes.append({"key": key, "revision": 1, "row": ["paid", key], "effects": 0})
        changes.append({"key": key + ELSEWHERE, "revision": 1, "row": None, "effects": 0})
    database.say("commit")
    database.close()
    journal.write("commit", changes=changes)
