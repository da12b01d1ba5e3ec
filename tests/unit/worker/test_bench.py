"""The bench, looked at while somebody else is at it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from duly import Duly
from duly.stores.contract import Ask, Lane, Renewal
from duly.stores.drive import Operation
from duly.worker.bench import Bench
from duly.worker.hand import Holding
from duly.worker.transaction import Counter


def _no_renewal() -> Operation[Renewal]:
    raise AssertionError("nothing is renewed here")


def _bench(app: Duly, loop: asyncio.AbstractEventLoop) -> Bench:
    """Without slots, so that whatever is offered stays in the buffer."""
    return Bench(
        slots=0,
        loop=loop,
        trusts_lease=lambda: True,
        wake=lambda: None,
        tell=lambda _holding, _signal: None,
        fail=lambda _error: None,
        counter=Counter(app, "w1", renewal=_no_renewal),
    )


def _holding(app: Duly) -> Holding:
    task = app.task(name="send")(lambda: None)
    task.enqueue()
    ask = Ask("w1", {"send": Lane("send")}, timedelta(minutes=1), limit=1, free=1)
    (claim,) = app.store.run(app.store.claim(ask)).claims
    return Holding(claim, app.tasks["send"])


async def test_a_bench_is_not_empty_while_its_claims_are_looked_through() -> None:
    """Or a worker in burst mode would leave, and a worker that drains be done, with claims in hand."""
    app = Duly("memory://")
    bench = _bench(app, asyncio.get_running_loop())
    bench.offer([_holding(app)])
    found: list[bool] = []
    looking = threading.Thread(target=lambda: found.append(bench.is_empty))

    def look_meanwhile(_holding: Holding) -> bool:
        looking.start()
        looking.join(0.2)
        return False

    bench.return_unstarted(look_meanwhile, "not chosen")
    looking.join()

    assert (found, bench.buffered) == ([False], 1)
