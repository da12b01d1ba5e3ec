"""A copy behaves like its original: after any history, both go on in step and give the same answers.

The source is opened again after everything was carried, which only a test may do, so that both can be asked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.contract import strategies as some
from tests.contract.strategies import LANES, LEASE
from tests.move.arrange import MOVE, close, everything, seal, unpack_all
from tests.move.conftest import PAIRS, opened

from duly.job import Claim
from duly.lifecycle import Verdict
from duly.stores.contract import Ask, Settlement, Store
from duly.stores.drive import Operation
from duly.stores.house import House
from duly.testing import VirtualClock

EXAMPLES: Final = int(os.environ.get("DULY_EXAMPLES", "8"))

Making = Callable[[Store], Operation[Any]]


class Walk:
    """Steps that are taken by all stores at once; what they answer must be the same."""

    def __init__(self, clock: VirtualClock, *stores: House) -> None:
        self.clock = clock
        self.stores = stores
        self.ids = count(1)

    def ask(self, making: Making) -> list[Any]:
        answers = [store.run(making(store)) for store in self.stores]
        self.compare([plain(answer) for answer in answers])
        return answers

    def compare(self, told: Sequence[Any]) -> None:
        """A try that a server gave up, for a lock or for its time, has drawn numbers in vain: such a walk
        proves nothing. Were all walks like that, the test would fail."""
        if any(each != told[0] for each in told):
            assume(self.count_alike())
        for each in told:
            assert each == told[0]

    def count_alike(self) -> bool:
        """Whether all stores would give the next request the same number."""
        return len({number(store) for store in self.stores}) == 1

    def put(self, data: st.DataObject) -> None:
        request = replace(data.draw(some.requests), id=f"j{next(self.ids)}")
        self.ask(lambda store: store.put([request]))

    def work(self, data: st.DataObject) -> None:
        """Claim a few and settle all of them but perhaps the last, whose worker then seems dead."""
        ask = Ask("w1", LANES, LEASE, limit=3, free=3)
        lent = [claimed.claims for claimed in self.ask(lambda store: store.claim(ask))]
        kept = len(lent[0]) - data.draw(st.sampled_from([0, 0, 1]))
        verdicts = [some.at_a_time(data.draw(some.verdicts), self.clock.now()) for _ in range(max(0, kept))]
        answers = [
            store.run(store.settle("w1", ended(claims, verdicts)))
            for store, claims in zip(self.stores, lent, strict=True)
        ]
        assert all(answer == answers[0] for answer in answers)

    def chore(self, data: st.DataObject) -> None:
        chore = data.draw(some.chores)
        self.ask(lambda store: chore(store, self.clock.now()))

    def advance(self, data: st.DataObject) -> None:
        self.clock.advance(data.draw(some.waits))

    def go(self, data: st.DataObject, steps: int) -> None:
        for _ in range(steps):
            step = data.draw(st.sampled_from([self.put, self.put, self.work, self.chore, self.advance]))
            step(data)


def number(store: Store) -> int:
    """The next of the numbers that requests and locks are given."""
    grip = store.run(store.grip("even", "walk", LEASE))
    assert grip is not None
    return grip.token


def plain(answer: Any) -> Any:
    """Without the secrets of loans, which differ."""
    claims: Sequence[Claim] | None = getattr(answer, "claims", None)
    return answer if claims is None else answer._replace(claims=[lent._replace(nonce="") for lent in claims])


def ended(claims: Sequence[Claim], verdicts: Sequence[Verdict]) -> list[Settlement]:
    return [Settlement(lent.fence, verdict) for lent, verdict in zip(claims, verdicts, strict=False)]


def carry(source: House, target: House, clock: VirtualClock) -> None:
    """Everything but the departure: the source is opened again as it was."""
    seal(source)
    clock.advance(2 * LEASE)
    source.run(source.claim(Ask("mover", {}, LEASE, limit=1, free=0)))
    close(source)
    target.run(target.receive(MOVE, "source"))
    unpack_all(source, target)
    assert target.run(target.furnish(MOVE, source.run(source.furniture())))
    assert source.run(source.reopen(MOVE))
    assert target.run(target.settle_in(MOVE))


def seen(store: House, now: datetime) -> dict[str, Any]:
    """All but what only one of the two can know: when it was told of a worker, and old throttles."""
    found = everything(store)
    found["furniture"]["starts"] = [start for start in found["furniture"]["starts"] if start.at > now - LEASE]
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_copy_goes_on_in_step_with_its_original(source: str, target: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=True,
    )
    @given(data=st.data())
    def walk(data: st.DataObject) -> None:
        folder = Path(tempfile.mkdtemp(prefix="duly-twins-"))
        clock = VirtualClock()
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            first = opened(source, folder / "source", clock, stack)
            second = opened(target, folder / "target", clock, stack)
            alone = Walk(clock, first)
            alone.go(data, 20)
            carry(first, second, clock)
            assert seen(second, clock.now()) == seen(first, clock.now())
            both = Walk(clock, first, second)
            both.ids = alone.ids
            both.go(data, 12)
            both.compare([everything(store)["jobs"] for store in both.stores])

    walk()
