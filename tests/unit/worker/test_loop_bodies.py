"""Bodies on the loop, where the parts around them break."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from duly import Duly
from duly.errors import LeaseLost
from duly.signals import Signal
from duly.stores.contract import Ask, Lane, Renewal
from duly.stores.drive import Operation
from duly.worker.binding import Binding
from duly.worker.hand import Halt, Holding
from duly.worker.onloop import LoopBodies, check_wanted
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


class Doubtful:
    """A host whose lease nobody can trust, as after a freeze that no other thread has noticed yet."""

    def trusts_lease(self) -> bool:
        return False

    def tell(self, holding: Holding, signal: Signal, /) -> None:
        raise AssertionError("nothing is told by a body that never began")

    def bind(self, holding: Holding, /) -> Binding:
        raise AssertionError("nothing is bound to a body that never began")

    def strike(self, holding: Holding, /) -> None:
        raise AssertionError("a body that never began cannot be struck")


def test_a_body_stays_outside_once_its_lease_cannot_be_trusted() -> None:
    app = Duly("memory://")

    @app.task(name="slow")
    def slow() -> None:
        raise AssertionError("it began")

    slow.enqueue()
    lanes = {"slow": Lane("slow")}
    ask = Ask(worker="w1", lanes=lanes, lease=timedelta(seconds=9), limit=1, free=1)
    [claim] = app.store.run(app.store.claim(ask)).claims
    holding = Holding(claim, slow, Doubtful(), started_at=app.clock.now())

    with pytest.raises(LeaseLost):
        check_wanted(holding)

    assert (holding.halt, holding.started_at) == (Halt.LOST, None)
