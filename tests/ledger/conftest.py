"""Every test takes `home` and runs on each database that can hold receipts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.ledger.homes import Home
from tests.servers import postgres_url

from duly import Ledger
from duly.ids import new_nonce


class OpenLedger(Protocol):
    """Makes ledgers; all of one test share one database."""

    def __call__(self, place: Any = None, **terms: Any) -> Ledger: ...


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Home, None, None]:
    url = f"sqlite:///{tmp_path / 'app.db'}" if request.param == "sqlite" else postgres_url()
    made = Home(url, f"t{new_nonce()}")
    made.create()
    yield made
    made.destroy()


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that a busy machine can keep, renewed several times a second."""
    monkeypatch.setattr("duly.ledger.beat.BEATS_PER_LEASE", 100)


@pytest.fixture
def open_ledger(home: Home) -> Generator[OpenLedger, None, None]:
    with ExitStack() as stack:

        def open_one(place: Any = None, **terms: Any) -> Ledger:
            ledger = Ledger(home.url if place is None else place, namespace=home.namespace, **terms)
            ledger.open()
            stack.callback(ledger.close)
            return ledger

        yield open_one


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    return open_ledger()


@pytest.fixture
def sent(ledger: Ledger) -> list[str]:
    """The ids that were handed over, to a queue that takes everything."""
    taken: list[str] = []
    ledger.hand_over(lambda order: taken.append(order.id))
    return taken


@pytest.fixture
def postgres_only(home: Home) -> None:
    if home.is_sqlite:
        pytest.skip("about PostgreSQL")


@pytest.fixture
def sqlite_only(home: Home) -> None:
    if not home.is_sqlite:
        pytest.skip("about SQLite")
