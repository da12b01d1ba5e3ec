"""One holder at a time, also among handles of one process; a vain wait leaves nothing locked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.sqlite.conftest import until

from duly.errors import StoreBusy, StoreUnavailable
from duly.stores.sqlite.filelock import FileLock

LONG = timedelta(seconds=60)
SHORT = timedelta(milliseconds=20)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "duly.lock")


@pytest.fixture
def other(place: str) -> Iterator[FileLock]:
    with closing(FileLock(place)) as lock:
        yield lock


def test_two_handles_exclude_each_other(place: str, other: FileLock) -> None:
    with closing(FileLock(place)) as lock:
        assert lock.try_acquire()
        assert not other.try_acquire()

        lock.release()

        assert other.try_acquire()


def test_closing_the_handle_lets_go(place: str, other: FileLock) -> None:
    lock = FileLock(place)
    lock.try_acquire()

    lock.close()

    assert other.try_acquire()


def test_a_wait_ends_when_the_holder_lets_go(place: str, other: FileLock) -> None:
    other.try_acquire()
    entered = threading.Event()

    def wait() -> None:
        with closing(FileLock(place)) as lock, lock.held(LONG):
            entered.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not entered.is_set()
    other.release()

    waiter.join()
    assert entered.is_set()
    assert other.try_acquire()


def test_a_vain_wait_names_the_lock_and_how_to_find_its_holder(place: str, other: FileLock) -> None:
    other.try_acquire()

    with (
        closing(FileLock(place)) as lock,
        pytest.raises(StoreBusy, match=r"fuser .*duly\.lock"),
        lock.held(SHORT),
    ):
        pytest.fail("it was not ours to hold")


def test_a_wait_that_was_given_up_does_not_take_the_lock_later(place: str, other: FileLock) -> None:
    other.try_acquire()
    lock = FileLock(place)
    with pytest.raises(StoreUnavailable), lock.held(SHORT):
        pytest.fail("it was not ours to hold")
    lock.close()

    other.release()

    until(lambda: not any("opening" in thread.name for thread in threading.enumerate()))
    assert other.try_acquire()


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"missing/duly\.lock"):
        FileLock(str(tmp_path / "missing" / "duly.lock"))
