"""The bench, looked at while somebody else is at it."""

from __future__ import annotations

import asyncio
import threading

from tests.unit.worker.arrange import bench_of, holding_of

from duly import Duly
from duly.worker.hand import Holding


async def test_a_bench_is_not_empty_while_its_claims_are_looked_through() -> None:
    """Or a worker in burst mode would leave, and a worker that drains be done, with claims in hand."""
    app = Duly("memory://")
    bench = bench_of(app, asyncio.get_running_loop())
    bench.keep([holding_of(app)])
    bench.advance()
    found: list[bool] = []
    looking = threading.Thread(target=lambda: found.append(bench.is_empty))

    def look_meanwhile(_holding: Holding) -> bool:
        looking.start()
        looking.join(0.2)
        return False

    bench.return_unstarted(look_meanwhile, "not chosen")
    looking.join()

    assert (found, bench.buffered) == ([False], 1)
