"""Orders to a run, given in the moment in which another thread seats it or lets go of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.worker.arrange import bench_of, holding_of

from duly import Duly
from duly.errors import LeaseLost
from duly.lifecycle import Release
from duly.run import Run
from duly.worker.hand import Halt, Hand
from duly.worker.onloop import check_wanted, seat


class Watched(Run):
    """Calls somebody whenever it is told something."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("is_lost", "superseded", "cancelled"):
            self.told()

    told: Callable[[], object] = staticmethod(lambda: None)


def test_a_run_that_is_let_go_of_while_it_is_told_to_stop_hurts_nobody() -> None:
    """Or the heartbeat would die of it, and the worker with it."""
    holding, hand = holding_of(Duly("memory://")), Hand()
    hand.take([holding])
    run = Watched(holding.claim, holding.task.options, holding.tell)
    holding.run, run.told = run, lambda: hand.drop([holding.fence])

    holding.order(Halt.LOST)

    assert (hand.get(holding.fence), run.superseded, run.cancelled) == (None, True, True)


def test_an_order_that_comes_while_a_run_is_seated_reaches_it() -> None:
    """Who orders writes the reason, then looks for a run; who seats one looks for a reason after that."""
    holding = holding_of(Duly("memory://"))
    holding.order(Halt.CANCELLED)

    run = seat(holding)

    assert run.cancelled
    with pytest.raises(LeaseLost):
        check_wanted(holding)


async def test_an_order_to_a_claim_that_was_returned_starts_and_ends_nothing() -> None:
    app = Duly("memory://")
    bench, holding = bench_of(app, asyncio.get_running_loop()), holding_of(app)
    bench.keep([holding])
    bench.advance()
    bench.return_unstarted(lambda _: True, "not wanted")

    holding.order(Halt.LOST)

    (ended,) = bench.collect()
    assert (ended.holding, ended.verdict) == (holding, Release(note="not wanted"))
    assert (holding.run, holding.body, bench.is_empty) == (None, None, True)
