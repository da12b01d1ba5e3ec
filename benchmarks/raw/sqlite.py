"""What SQLite allows, with either journal: statements for whole batches, one transaction each."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Final

from benchmarks import place
from benchmarks.raw import BATCH
from benchmarks.raw.shared import SharedCommits
from benchmarks.slots import given

SCHEMA: Final = """
create table job (id integer primary key, queue text not null, task text not null, arguments text not null);
create table ready (lane integer not null, ready_at integer not null, id integer not null,
    primary key (lane, ready_at, id)) without rowid;
create table running (id integer primary key, worker integer not null, epoch integer not null);
create table ended (id integer primary key, finished_at integer not null, worker integer not null);
create table effect (number integer not null);
create table single (id integer primary key, queue text not null, task text not null, arguments text not null,
    status integer not null default 0, attempt integer not null default 0, run_at integer not null,
    done_at integer);
create index single_ready on single (queue, run_at, id) where status = 0;
"""
JOURNAL: Final = "delete" if "journal=rollback" in place.url() else "wal"
INSERT: Final = "insert into job (queue, task, arguments) values ('q', 'noop', ?)"
PUT: Final = "insert into single (queue, task, arguments, run_at) values ('q', 'noop', ?, ?)"
"""One that a worker can find."""
PICK: Final = f"""
select ready.id, job.arguments from ready join job on job.id = ready.id
where lane = 1 and ready_at = 0 order by ready.id limit {BATCH}
"""
LEND: Final = "insert into running select value, 1, 1 from json_each(?)"
TAKE: Final = "delete from ready where lane = 1 and ready_at = 0 and id in (select value from json_each(?))"
NOTE: Final = "insert into ended select value, ?, 1 from json_each(?)"
END: Final = "delete from running where id in (select value from json_each(?))"

_making: Final = threading.Lock()


class Peer:
    packages = ()
    settings = f"the interpreter's sqlite3, batches of {BATCH}, automatic checkpoints as they are by default"

    def __init__(self) -> None:
        self.task = os.environ.get(place.TASK, "")

    def setup(self) -> None:
        connection = connect()
        connection.executescript(SCHEMA)
        connection.close()

    def open(self) -> None:
        self.connection = connect()
        self.put = shared().put if place.variant() == "shared commits" else self.put_alone
        self.bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def close(self) -> None:
        self.connection.close()

    def enqueue(self, number: int) -> None:
        if self.task == "wake":
            self.bell.sendto(str(number).encode(), bell())
        else:
            self.put(str(number), time.time_ns() // 1000)

    def put_alone(self, *values: str | int) -> None:
        self.connection.execute(PUT, values)

    def bulk(self, numbers: Sequence[int]) -> None:
        self.connection.execute("begin immediate")
        self.connection.executemany(INSERT, [(str(number),) for number in numbers])
        self.connection.execute("commit")

    def fill(self, numbers: Sequence[int]) -> None:
        self.bulk(numbers)
        self.connection.execute(
            "insert into ready select 1, 0, id from job order by id desc limit ?", (len(numbers),)
        )

    def worker(self) -> None:
        works = {"wake": wake, "effect": have_effects}
        works.get(self.task, drain)()


def bell() -> str:
    """Beside the file, and removed with it."""
    return f"{place.path()}-bell"


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(place.path(), isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute(f"pragma journal_mode = {JOURNAL}").fetchall()
    connection.execute("pragma synchronous = full")
    return connection


def shared() -> SharedCommits:
    """The same for all threads of this process."""
    with _making:
        return _made()


@cache
def _made() -> SharedCommits:
    return SharedCommits(connect, PUT)


def turn(connection: sqlite3.Connection, done: str) -> list[tuple[int, str]]:
    connection.execute("begin immediate")
    connection.execute(END, (done,))
    connection.execute(NOTE, (time.time_ns() // 1000, done))
    rows: list[tuple[int, str]] = connection.execute(PICK).fetchall()
    picked = json.dumps([job for job, _ in rows])
    connection.execute(LEND, (picked,))
    connection.execute(TAKE, (picked,))
    connection.execute("commit")
    return rows


def drain() -> None:
    stamp, connection, done = given().stamper(), connect(), "[]"
    while True:
        rows = turn(connection, done)
        for _, arguments in rows:
            stamp(int(arguments))
        done = json.dumps([job for job, _ in rows])
        if not rows:
            time.sleep(0.001)


def have_effects() -> None:
    stamp, connection = given().stamper(), connect()
    while rows := turn(connection, "[]"):
        for job, arguments in rows:
            connection.execute("begin immediate")
            connection.execute("insert into effect values (?)", (int(arguments),))
            connection.execute("delete from running where id = ?", (job,))
            connection.execute("insert into ended values (?, ?, 1)", (job, time.time_ns() // 1000))
            connection.execute("commit")
            stamp(int(arguments))


def wake() -> None:
    stamp, path = given().stamper(), bell()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        if os.path.exists(path):
            os.unlink(path)
        listener.bind(path)
        while word := listener.recv(64):
            stamp(int(word))
