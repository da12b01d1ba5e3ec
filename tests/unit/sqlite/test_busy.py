"""A lock that somebody else holds is told apart from a store that is away: only then are leases safe."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import timedelta

import pytest
from tests.unit.sqlite.conftest import OpenDriver
from tests.unit.sqlite.notes import MIGRATIONS, add, texts

from duly.errors import StoreBusy
from duly.stores.sqlite.driver import Driver

SHORT = timedelta(milliseconds=300)
HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def transaction(path: str) -> Generator[None, None, None]:
    """An application writes for as long as the block lasts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("begin immediate")
        yield


@contextmanager
def engine_lock(path: str) -> Generator[None, None, None]:
    """Another process holds the engine's lock for as long as the block lasts."""
    command = [sys.executable, "-c", HOLDER, path + "-duly.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no flock to hold"),
    pytest.mark.parametrize("held", [transaction, engine_lock], ids=lambda held: held.__name__),
]
Held = Callable[[str], AbstractContextManager[None]]


def test_a_write_behind_a_lock_is_told_that_the_store_is_busy(
    open_driver: OpenDriver, path: str, held: Held
) -> None:
    driver = open_driver(patience=SHORT)

    with held(path), pytest.raises(StoreBusy):
        driver.run(add("late"))

    assert driver.run(add("one")) == 1
    assert driver.run(texts()) == ["one"]


async def test_a_task_that_writes_behind_a_lock_is_told_the_same(
    open_driver: OpenDriver, path: str, held: Held
) -> None:
    driver = open_driver(patience=SHORT)

    with held(path), pytest.raises(StoreBusy):
        await driver.arun(add("late"))

    assert await driver.arun(add("one")) == 1


def test_a_first_opening_behind_a_lock_is_told_the_same(path: str, held: Held) -> None:
    with closing(sqlite3.connect(path)) as application:
        application.execute("pragma journal_mode=wal")

    with held(path), pytest.raises(StoreBusy):
        Driver(f"sqlite:///{path}", migrations=MIGRATIONS, patience=SHORT).open()
