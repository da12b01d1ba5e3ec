"""What ends while the store is at work: put together beforehand, and settled like everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from tests.unit.worker.arrange import bench_of, holding_of

from duly import Duly
from duly.lifecycle import Done, Release, Settled
from duly.stores.contract import Settlement
from duly.worker import foresight
from duly.worker.bench import Bench
from duly.worker.endings import DONE, Concluded, settlements_of
from duly.worker.foresight import Foresight
from duly.worker.hand import Holding


@pytest.fixture
def app() -> Duly:
    return Duly("memory://")


@pytest.fixture
def bench(app: Duly) -> Iterator[Bench]:
    with closing(asyncio.new_event_loop()) as loop:
        yield bench_of(app, loop)


@pytest.fixture
def ahead(app: Duly, bench: Bench) -> Foresight:
    return Foresight(app.store, bench)


@pytest.fixture
def holding(app: Duly) -> Holding:
    return holding_of(app)


def end(bench: Bench, *ended: Concluded) -> None:
    for each in ended:
        getattr(bench, "_end")(each)  # noqa: B009  as a run does


def look(ahead: Foresight) -> int:
    """As whoever waits for the store does, until there is nothing more to be gained; how often it looked."""
    return len([*ahead.looks()])


def test_what_was_seen_to_end_is_fetched_once_and_in_order(
    bench: Bench, ahead: Foresight, holding: Holding
) -> None:
    seen, late = [Concluded(holding, DONE) for _ in range(3)], Concluded(holding, DONE)
    end(bench, *seen)

    look(ahead)
    end(bench, late)

    assert [ahead.is_empty, ahead.fetch(), ahead.is_empty] == [False, [*seen, late], True]
    assert ahead.fetch() == []


def test_it_is_settled_as_if_it_had_not_been_foreseen(
    app: Duly, bench: Bench, ahead: Foresight, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[list[Settlement]]()

    def foresee(settlements: Sequence[Settlement]) -> None:
        told.append(list(settlements))

    monkeypatch.setattr(app.store, "foresee", foresee)
    end(bench, Concluded(holding, DONE), Concluded(holding, Release(note="stopped")))
    look(ahead)
    end(bench, Concluded(holding, Done("42")))

    ended = ahead.fetch()

    assert told[-1] == settlements_of(ended[:2])
    assert ahead.settlements_of(ended) == settlements_of(ended)


def test_nothing_of_it_is_kept_once_it_has_been_settled(
    app: Duly, bench: Bench, ahead: Foresight, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle worker would keep results and the locals of bodies that failed."""
    told = list[int]()

    def foresee(settlements: Sequence[Settlement]) -> None:
        told.append(len(settlements))

    monkeypatch.setattr(app.store, "foresee", foresee)
    end(bench, Concluded(holding, DONE))
    look(ahead)
    ended = ahead.fetch()

    again = [ahead.settlements_of(ended), ahead.settlements_of(ended)]
    ahead.close()

    assert again == [settlements_of(ended)] * 2
    assert [getattr(ahead, name) for name in ("_ended", "_foreseen", "_settlements")] == [[], [], []]
    assert told == [1, 0]


def test_what_was_not_settled_the_last_time_stands_in_front_of_it(
    bench: Bench, ahead: Foresight, holding: Holding
) -> None:
    """Somebody's transaction held a row: that end is asked about again, with those that came since."""
    busy = Concluded(holding, Release(note="busy"))
    end(bench, Concluded(holding, DONE))
    look(ahead)

    together = [busy, *ahead.fetch()]

    assert ahead.settlements_of(together) == settlements_of(together)


def test_a_new_message_begins_anew(bench: Bench, ahead: Foresight, holding: Holding) -> None:
    end(bench, Concluded(holding, DONE))
    look(ahead)
    ahead.fetch()
    end(bench, Concluded(holding, Done("42")))
    look(ahead)

    ended = ahead.fetch()

    assert ahead.settlements_of(ended) == settlements_of(ended)


@pytest.mark.parametrize(
    "served", [{"answer": Settled.SETTLED}, {"meant": Done("42")}], ids=["settled", "in doubt"]
)
def test_a_run_that_is_not_to_be_settled_ends_the_looking(
    bench: Bench, ahead: Foresight, holding: Holding, served: dict[str, object]
) -> None:
    ended = [Concluded(holding, DONE), Concluded(holding, Done("42"), **served)]  # type: ignore[arg-type]
    end(bench, *ended)

    assert look(ahead) == 1
    assert ahead.fetch() == ended


def test_it_looks_so_often_and_no_more(bench: Bench, ahead: Foresight, holding: Holding) -> None:
    end(bench, Concluded(holding, DONE))

    assert look(ahead) == foresight.LOOKS


def test_it_collects_no_more_than_a_batch(
    bench: Bench, ahead: Foresight, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foresight, "LARGEST_BATCH", 2)
    end(bench, *[Concluded(holding, DONE)] * 2)

    assert look(ahead) == 1
