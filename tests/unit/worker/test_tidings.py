"""What a worker tells and counts of ends: each once, nothing where there were none, and no question twice."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.arrange import holding_of

from duly import Duly
from duly.lifecycle import Done, Release, Settled
from duly.pulse import KIND
from duly.stores.contract import Settlement
from duly.stores.drive import Operation
from duly.worker.doubts import sort_out
from duly.worker.endings import Concluded
from duly.worker.hand import Hand
from duly.worker.tally import Tally
from duly.worker.tidings import Tidings


@pytest.fixture
def app() -> Duly:
    return Duly("memory://")


@pytest.fixture
def tally(app: Duly) -> Tally:
    tally = Tally(app.store, "w1")
    tally.set_clock(app.clock.now(), time.monotonic())
    return tally


@pytest.fixture
def tidings(app: Duly, tally: Tally) -> Tidings:
    return Tidings(app, Hand(), tally, lambda act: act())


def test_a_look_at_the_store_that_settles_nothing_has_nothing_written_down(
    app: Duly, tally: Tally, tidings: Tidings
) -> None:
    """An idle worker would write for ever, and keep disks awake."""
    tidings.look_who_listens()

    tidings.tell([], [], time.monotonic())
    tidings.count()
    tally.write()

    assert app.store.run(app.store.diary(KIND, limit=10)) == []


def test_an_end_that_was_looked_up_is_not_looked_up_again(
    app: Duly, tidings: Tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, looks = app.store, list[Any]()
    holding = holding_of(app)
    store.run(store.settle("w1", [Settlement(holding.fence, Done("42", timedelta(hours=1)))]))
    find = store.find

    def counted(*given: Any, **named: Any) -> Operation[Any]:
        looks.append(given)
        return find(*given, **named)

    monkeypatch.setattr(store, "find", counted)

    (settled,) = sort_out(store, [Concluded(holding, Release(note="cut off"), meant=Done("42"))]).settled
    tidings.tell([settled], [Settled.SETTLED], time.monotonic())

    assert settled.verdict == Done("42")
    assert len(looks) == 1
