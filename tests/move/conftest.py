"""Every move is tested from each store to each, under one clock."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple, cast

import pytest
from tests.contract.stores import STORES

from duly.stores.house import House
from duly.testing import VirtualClock

HOUSES: Final = [name for name in STORES if name != "memory"]
RING: Final = [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")]
"""Each store is left once and filled once; the other ways round are for the thorough."""
PAIRS: Final = [
    pytest.param(*pair, marks=() if pair in RING else pytest.mark.thorough, id="-to-".join(pair))
    for pair in product(HOUSES, HOUSES)
]


class Pair(NamedTuple):
    """Where everything is, and where it shall be."""

    source: House
    target: House


def opened(name: str, folder: Path, clock: VirtualClock, stack: ExitStack) -> House:
    """A store of its own for this folder."""
    folder.mkdir(exist_ok=True)
    store = cast(House, STORES[name](folder, clock))
    store.open()
    stack.callback(store.close)
    return store


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every way from store to store, for whoever asks for a pair."""
    if "pair" in metafunc.fixturenames:
        metafunc.parametrize(("source", "target"), PAIRS)


@pytest.fixture
def pair(source: str, target: str, tmp_path: Path, clock: VirtualClock) -> Generator[Pair]:
    with ExitStack() as stack:
        yield Pair(
            opened(source, tmp_path / "source", clock, stack),
            opened(target, tmp_path / "target", clock, stack),
        )


@pytest.fixture(params=HOUSES)
def house(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Generator[House]:
    """One store, for what happens at its door."""
    with ExitStack() as stack:
        yield opened(request.param, tmp_path / "source", clock, stack)


@pytest.fixture
def elsewhere(tmp_path: Path, clock: VirtualClock) -> Generator[House]:
    """A file to move to, where it does not matter what the target is."""
    with ExitStack() as stack:
        yield opened("sqlite", tmp_path / "elsewhere", clock, stack)
