"""Rings reach listeners in other processes; nothing about a bell may break a commit."""

from __future__ import annotations

import os
import socket
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
from duly.stores.sqlite.doorbell import LONGEST_FOLDER, PollingBell, Ringer, SocketBell, bells_of
from duly.stores.sqlite.driver import Driver

LONG = timedelta(seconds=20)
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


def test_ringing_where_nobody_listens_is_nothing(folder: str) -> None:
    Ringer(folder).ring()


def test_a_dead_listeners_socket_is_swept_away(folder: str, bell: SocketBell) -> None:
    stale = os.path.join(folder, "1-dead.sock")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as dead:
        dead.bind(stale)

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
