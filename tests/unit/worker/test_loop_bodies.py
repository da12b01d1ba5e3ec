"""Bodies on the loop, where the parts around them break."""

from __future__ import annotations

import asyncio

from duly import Duly
from duly.stores.contract import Renewal
from duly.stores.drive import Operation
from duly.worker.onloop import LoopBodies
from duly.worker.transaction import Counter


def _no_renewal() -> Operation[Renewal]:
    raise AssertionError("nothing is renewed here")


def _break() -> None:
    raise RuntimeError("can't start new thread")


async def test_a_start_that_breaks_on_the_loop_is_reported() -> None:
    """The loop itself would log it and go on, and nothing would ever start there again."""
    loop, heard = asyncio.get_running_loop(), list[BaseException]()
    app = Duly("memory://")
    bodies = LoopBodies(
        loop,
        Counter(app, "w1", renewal=_no_renewal),
        conclude=lambda _: None,
        advance=_break,
        fail=heard.append,
    )

    bodies._serve()  # pyright: ignore[reportPrivateUsage]

    assert [str(error) for error in heard] == ["can't start new thread"]
