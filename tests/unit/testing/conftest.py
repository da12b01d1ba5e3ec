"""An application and its virtual world, for every test here."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from duly import Duly
from duly.testing import WorkingClock, virtual


@pytest.fixture
def app() -> Duly:
    """Its own store must never be opened: the address leads nowhere."""
    return Duly("sqlite:////nowhere/at/all.db")


@pytest.fixture
def clock(app: Duly) -> Generator[WorkingClock, None, None]:
    with virtual(app) as clock:
        yield clock
