"""A bench without slots, and a claim in hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from duly import Duly
from duly.stores.contract import Ask, Lane, Renewal, WorkerCard
from duly.stores.drive import Operation
from duly.worker.bench import Bench
from duly.worker.hand import Holding
from duly.worker.transaction import Counter


def no_renewal() -> Operation[Renewal]:
    """Nothing here takes so long."""
    raise AssertionError("nothing is renewed here")


def bench_of(app: Duly, loop: asyncio.AbstractEventLoop) -> Bench:
    """Without slots, so that whatever is offered stays in the buffer."""
    return Bench(
        slots=0,
        loop=loop,
        trusts_lease=lambda: True,
        wake=lambda: None,
        tell=lambda _holding, _signal: None,
        fail=lambda _error: None,
        counter=Counter(app, "w1", renewal=no_renewal),
    )


def holding_of(app: Duly) -> Holding:
    """A claim that was just lent."""
    task = app.task(name="send")(lambda: None)
    task.enqueue()
    ask = Ask("w1", {"send": Lane("send")}, timedelta(minutes=1), limit=1, free=1)
    (claim,) = app.store.run(app.store.claim(ask)).claims
    return Holding(claim, app.tasks["send"])


def card_of(app: Duly, worker: str) -> WorkerCard:
    """A worker that has just come."""
    return WorkerCard(worker, worker, "host", 1, app.clock.now())
