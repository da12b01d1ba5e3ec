"""Drivers on a fresh file, closed at the end, and threads that are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from tests.unit.sqlite.notes import MIGRATIONS

from duly.stores.sqlite.driver import Driver

PATIENCE = timedelta(seconds=60)
"""Longer than any test waits on purpose."""


class OpenDriver(Protocol):
    def __call__(self, options: str = "", *, patience: timedelta = PATIENCE) -> Driver: ...


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notes.db")


@pytest.fixture
def open_driver(path: str) -> Iterator[OpenDriver]:
    made: list[Driver] = []

    def open_one(options: str = "", *, patience: timedelta = PATIENCE) -> Driver:
        driver = Driver(f"sqlite:///{path}{options}", migrations=MIGRATIONS, patience=patience)
        made.append(driver)
        driver.open()
        return driver

    yield open_one
    for driver in made:
        driver.close()


@pytest.fixture
def driver(open_driver: OpenDriver) -> Driver:
    return open_driver()


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread or process to get somewhere; the test's time limit ends a vain wait."""
    while not condition():
        time.sleep(0.001)
