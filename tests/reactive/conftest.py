"""Every test takes `place` (a store and its user) and runs once per store that can follow tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reactive.arrange import Shop
from tests.reactive.places import PLACES, Place

from duly.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Place]:
    made = PLACES[request.param](tmp_path, clock)
    made.store.open()
    yield made
    made.store.close()


@pytest.fixture
def shop(place: Place, clock: VirtualClock) -> Shop:
    """A place with a table of orders."""
    place.user.say("create table orders (id integer primary key, status text, total numeric, note text)")
    return Shop(place, clock)
