"""Rings reach listeners in other processes; nothing about a bell may break a commit."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.sqlite.conftest import until
from tests.unit.sqlite.notes import add

from duly.stores.sqlite import driver as driver_module
from duly.stores.sqlite.doorbell import LONGEST_FOLDER, PollingBell, Ringer, SocketBell, bells_of, sweep
from duly.stores.sqlite.driver import Driver

LONG = timedelta(seconds=60)
NOW = timedelta(0)


@pytest.fixture
def folder() -> Iterator[str]:
    """Short, as a socket's path must be, whatever the test runner's own directory is called."""
    with tempfile.TemporaryDirectory(prefix="bells") as made:
        yield os.path.join(made, "b")


@pytest.fixture
def bell(folder: str) -> Iterator[SocketBell]:
    with closing(SocketBell(folder)) as made:
        yield made


def leave_dead_socket(folder: str) -> str:
    """As a killed process does."""
    path = os.path.join(folder, f"{len(os.listdir(folder))}-dead.sock")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as dead:
        dead.bind(path)
    return path


def test_a_burst_is_heard_once_and_its_last_ring_is_not_lost(folder: str, bell: SocketBell) -> None:
    ringer = Ringer(folder)
    ringer.ring()
    assert bell.wait(LONG)

    ringer.ring()  # within the gap after the first, so it is sent late

    assert bell.wait(LONG)


def test_rings_that_nobody_collects_do_not_pile_up(folder: str, bell: SocketBell) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
        sender.settimeout(0)
        address = os.path.join(folder, os.listdir(folder)[0])
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"!", address)

    Ringer(folder).ring()

    assert bell.wait(LONG)
    assert not bell.wait(NOW)


def test_who_comes_after_a_ring_for_nobody_is_heard_of_soon(folder: str) -> None:
    ringer = Ringer(folder)
    ringer.ring()

    with closing(SocketBell(folder)) as bell:
        for _ in range(100):  # the next look is a moment after the last
            ringer.ring()
            if bell.wait(timedelta(milliseconds=1)):
                return
    raise AssertionError("a hundred rings and as many milliseconds, and nobody looked")


def test_who_comes_in_the_same_process_is_heard_of_at_once(folder: str) -> None:
    ringer = Ringer(folder)
    ringer.ring()

    with closing(SocketBell(folder)) as bell:
        ringer.look_again()
        ringer.ring()

        assert bell.wait(LONG)


def test_ringing_where_nobody_listens_is_nothing(folder: str) -> None:
    Ringer(folder).ring()


def test_a_burst_that_nobody_hears_keeps_no_thread_awake(folder: str) -> None:
    before = set(threading.enumerate())
    ringer = Ringer(folder)

    for _ in range(3):
        ringer.ring()

    assert set(threading.enumerate()) <= before


def test_a_dead_listeners_socket_is_swept_away(folder: str, bell: SocketBell) -> None:
    stale = leave_dead_socket(folder)

    Ringer(folder).ring()

    assert not os.path.exists(stale)
    assert bell.wait(LONG)


def test_other_files_in_the_folder_are_left_alone(folder: str, bell: SocketBell) -> None:
    foreign = Path(folder, "README")
    foreign.write_text("not a socket")

    Ringer(folder).ring()

    assert bell.wait(LONG)
    assert foreign.exists()


def test_a_listener_whose_socket_was_swept_away_comes_back(folder: str, bell: SocketBell) -> None:
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))

    bell.wait(timedelta(milliseconds=1))
    Ringer(folder).ring()

    assert bell.wait(LONG)


def test_the_last_listener_takes_the_folder_with_it(folder: str) -> None:
    first, second = SocketBell(folder), SocketBell(folder)

    first.close()
    assert os.path.isdir(folder)
    second.close()

    assert not os.path.exists(folder)


def test_whoever_rings_where_all_have_died_takes_the_folder_away(folder: str) -> None:
    os.mkdir(folder)
    leave_dead_socket(folder)

    Ringer(folder).ring()

    assert not os.path.exists(folder)


def test_a_listener_sweeps_what_the_dead_left_when_it_comes_and_when_it_goes(folder: str) -> None:
    os.mkdir(folder)
    before = leave_dead_socket(folder)
    bell = SocketBell(folder)
    has_swept = not os.path.exists(before)
    leave_dead_socket(folder)

    bell.close()

    assert has_swept
    assert not os.path.exists(folder)


def test_sweeping_neither_rings_nor_harms_who_listens(folder: str, bell: SocketBell) -> None:
    sweep(folder)

    assert not bell.wait(NOW)
    Ringer(folder).ring()
    assert bell.wait(LONG)


def test_a_listener_in_the_temporary_place_sweeps_its_dead_neighbours(folder: str) -> None:
    place = os.path.dirname(folder)
    names = ("duly-0123456789abcdef", "duly-fedcba9876543210", "duly-0000000000000000")
    dead, live, kept = (os.path.join(place, name) for name in names)
    for made in (dead, kept):
        os.mkdir(made)
        leave_dead_socket(made)
    Path(kept, "README").write_text("not a socket")

    with closing(SocketBell(live)):
        found = os.path.exists(live)

    assert found
    assert not os.path.exists(dead)
    assert os.listdir(kept) == ["README"]


def test_listeners_come_and_go_while_others_sweep(folder: str) -> None:
    over = threading.Event()

    def keep_sweeping() -> None:
        while not over.is_set():
            sweep(folder)

    sweepers = [threading.Thread(target=keep_sweeping) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(100):
            SocketBell(folder).close()
    finally:
        over.set()
        for sweeper in sweepers:
            sweeper.join()

    assert not os.path.exists(folder)


LISTEN = """
import sys
from duly.stores.sqlite.doorbell import SocketBell
bell = SocketBell(sys.argv[1])
print("listening", flush=True)
input()
"""


def test_a_killed_listener_leaves_nothing_behind_once_another_was_there(folder: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as listener:
        assert listener.stdout is not None
        listener.stdout.readline()
        listener.kill()
    left_behind = os.listdir(folder)

    SocketBell(folder).close()

    assert len(left_behind) == 1
    assert not os.path.exists(folder)


def test_closing_ends_a_wait_in_progress(folder: str) -> None:
    bell = SocketBell(folder)
    entered = threading.Event()

    def listen() -> None:
        entered.set()
        bell.wait(LONG)

    listener = threading.Thread(target=listen)
    listener.start()
    entered.wait()

    bell.close()

    listener.join()
    assert not bell.wait(LONG)


def test_the_folder_stands_beside_the_file_when_the_path_is_short() -> None:
    assert bells_of("/srv/duly.db") == "/srv/duly.db-duly.bells"


def test_a_long_path_moves_the_folder_to_the_temporary_directory() -> None:
    deep = "/" + "x" * 100 + "/duly.db"

    assert len(bells_of(deep)) <= LONGEST_FOLDER
    assert bells_of(deep) == bells_of(deep)
    assert bells_of(deep) != bells_of(deep + "2")


def test_a_temporary_folder_of_another_user_is_not_trusted(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: os.path.dirname(folder))
    monkeypatch.setattr(os, "getuid", lambda: -1)

    with pytest.raises(PermissionError):
        SocketBell(folder)


def test_without_sockets_the_counter_of_changes_is_the_bell(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "HAS_SOCKETS", False)
    bell = driver.doorbell()
    assert isinstance(bell, PollingBell)
    assert not bell.wait(timedelta(milliseconds=1))

    driver.run(add("one"))

    assert bell.wait(LONG)
    assert not bell.wait(timedelta(milliseconds=1))
    bell.wake()
    assert bell.wait(LONG)
    bell.close()
    assert not bell.wait(LONG)


def test_a_place_that_holds_no_sockets_falls_back_to_the_counter(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: str) -> SocketBell:
        raise OSError("Operation not permitted")

    monkeypatch.setattr(driver_module, "SocketBell", refuse)

    with closing(driver.doorbell()) as bell:
        assert isinstance(bell, PollingBell)


def test_many_threads_may_ring_at_once(folder: str, bell: SocketBell) -> None:
    ringer = Ringer(folder)

    def ring() -> None:
        for _ in range(50):
            ringer.ring()

    threads = [threading.Thread(target=ring) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert bell.wait(LONG)
    until(lambda: not bell.wait(NOW))
