"""No handle is open while the process forks; where one is, the child says so instead of risking the file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

PROLOGUE = """
import os, sys, threading
from datetime import timedelta
from tests.unit.sqlite.notes import MIGRATIONS, add, texts
from duly.errors import StoreUnavailable
from duly.stores.sqlite.driver import Driver

patience = timedelta(seconds=float(sys.argv[2]))
driver = Driver("sqlite:///" + sys.argv[1], migrations=MIGRATIONS, patience=patience)
driver.run(add("before"))
driver.run(texts())

def handles():
    return sum(os.readlink(f"/proc/self/fd/{fd}").startswith(sys.argv[1]) for fd in open_files())

def open_files():
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]

def in_child(act):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(act()).encode())
        sys.exit(0)
    os.wait()
    return os.read(read, 1000).decode()
"""

WORDS = ("-W", "ignore::DeprecationWarning", "-c")


def outcome(path: str, program: str, patience: float = 60.0) -> str:
    """What a forking program prints, in an interpreter of its own: this one has the test runner's threads."""
    ended = subprocess.run(
        [sys.executable, *WORDS, PROLOGUE + textwrap.dedent(program), path, str(patience)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.stdout.strip()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list open files")
def test_a_child_inherits_no_handle(path: str) -> None:
    assert outcome(path, "print(handles() > 0, in_child(handles))") == "True 0"


def test_parent_and_child_both_go_on(path: str) -> None:
    program = """
    print(in_child(lambda: driver.run(add("child"))), driver.run(add("parent")), driver.run(texts()))
    """

    assert outcome(path, program) == "2 3 ['before', 'child', 'parent']"


def test_a_child_of_a_child_goes_on_too(path: str) -> None:
    assert outcome(path, 'print(in_child(lambda: in_child(lambda: driver.run(add("grandchild")))))') == "2"


def test_a_fork_waits_for_the_batch_in_progress(path: str) -> None:
    program = """
    began = threading.Event()
    def be_slow():
        began.set()
        threading.Event().wait(0.05)
    writer = threading.Thread(target=driver.run, args=(add("slow", before=be_slow),))
    writer.start()
    began.wait()
    print(in_child(lambda: driver.run(texts())))
    writer.join()
    """

    assert outcome(path, program) == "['before', 'slow']"


def test_a_child_forked_in_the_middle_of_a_stuck_write_refuses_and_the_parent_goes_on(path: str) -> None:
    program = """
    began, go = threading.Event(), threading.Event()
    def be_stuck():
        began.set()
        go.wait()
    writer = threading.Thread(target=driver.run, args=(add("stuck", before=be_stuck),))
    writer.start()
    began.wait()

    def try_it():
        try:
            driver.run(texts())
        except StoreUnavailable as error:
            return error

    print(in_child(try_it))
    go.set()
    writer.join()
    print(driver.run(texts()))
    """

    first, second = outcome(path, program, patience=0.2).splitlines()

    assert "SQLite cannot serve both. Call close() before forking" in first
    assert second == "['before', 'stuck']"


def test_a_closed_store_may_be_forked_by_anybody(path: str) -> None:
    assert outcome(path, "driver.close(); print(in_child(lambda: driver.run(texts())))") == "['before']"


GIVEN_UP = """
import time
from duly.errors import StoreBusy
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.turns import GaveUp, Line, Turn

lock_path = sys.argv[1] + "-duly.lock"
others = FileLock(lock_path)
others.acquire()

def give_up_a_turn():
    turn = Turn(Line(sys.argv[1]))
    try:
        turn.take(lambda: False)
    except GaveUp:
        turn.end()

def give_up_an_opening():
    try:
        with FileLock(lock_path).held(timedelta(milliseconds=1)):
            print("it was not ours")
    except StoreBusy:
        pass

def fork_sleeper():
    asleep, wakes = os.pipe()
    if os.fork() == 0:
        os.close(wakes)
        os.read(asleep, 1)
        os._exit(0)
    return wakes

def others_may_again():
    others.release()
    while any(thread.name in ("duly-sqlite-turn", "duly-sqlite-opening") for thread in threading.enumerate()):
        time.sleep(0.001)
    return others.try_acquire()
"""


def test_a_wait_that_was_given_up_leaves_no_lock_with_a_child_forked_meanwhile(path: str) -> None:
    program = """
give_up_a_turn()
give_up_an_opening()
sleeper = fork_sleeper()
print(others_may_again())
os.close(sleeper)
os.wait()
"""

    assert outcome(path, GIVEN_UP + program) == "True"


def test_a_turn_stays_with_the_parent_whatever_its_child_does_with_it(path: str) -> None:
    program = """
    from duly.stores.sqlite.filelock import FileLock
    from duly.stores.sqlite.turns import Line, Turn

    line = Line(sys.argv[1])
    turn = Turn(line)
    turn.take(lambda: True)
    in_child(lambda: (line.forget(), turn.end()))
    others = FileLock(sys.argv[1] + "-duly.lock")
    print(others.try_acquire(), turn.end(), others.try_acquire())
    """

    assert outcome(path, program) == "False None True"
