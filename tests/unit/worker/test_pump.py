"""The pump, turned by hand: what was lent starts, whatever else there is to do."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.worker.arrange import card_of, no_renewal

from duly import Duly, State
from duly.clock import SystemClock
from duly.errors import StoreUnavailable
from duly.job import ENGINE_QUEUES
from duly.lifecycle import Settled
from duly.signals import Throttle
from duly.stores.contract import Ask, Lane, Page, Selection
from duly.stores.drive import Operation
from duly.worker.beat import Heartbeat
from duly.worker.bench import Bench
from duly.worker.endings import DONE, Concluded
from duly.worker.hand import Hand, Holding
from duly.worker.lanes import Lanes
from duly.worker.outage import Outage
from duly.worker.pump import Pump
from duly.worker.tally import Tally
from duly.worker.transaction import Counter

LEASE = timedelta(minutes=10)


class Desk:
    """A pump with one slot, and the claims it was lent."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app = Duly(url)
        self.ran = list[str]()

        @app.task(name="send")
        async def send(name: str) -> None:
            self.ran.append(name)

        self.send = send
        self.hand = Hand()
        outage = Outage()
        self.beat = beat = Heartbeat(
            store=app.store, card=card_of(app, "w1"), lease=LEASE, hand=self.hand, fail=_fail, outage=outage
        )
        beat.beat()
        self.bench = Bench(
            slots=1,
            loop=loop,
            trusts_lease=beat.trusts_lease,
            wake=lambda: None,
            tell=lambda _holding, _signal: None,
            fail=_fail,
            counter=Counter(app, "w1", renewal=no_renewal),
        )
        lanes = Lanes(app, None)
        self.pump = Pump(app=app, worker="w1", lanes=lanes, hand=self.hand, bench=self.bench, beat=beat)

    def close(self) -> None:
        self.bench.close(timedelta(0))
        self.pump.close()
        self.app.close()

    def lend(self, name: str) -> Holding:
        self.send.enqueue(name)
        ask = Ask("w1", {"send": Lane("send")}, LEASE, limit=1, free=1)
        (claim,) = self.app.store.run(self.app.store.claim(ask)).claims
        holding = Holding(claim, self.app.tasks["send"], self.bench)
        self.hand.take([holding])
        return holding


def _fail(error: BaseException) -> None:
    raise error


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'duly.db'}"


def test_a_claim_that_cannot_be_started_ends_the_worker_and_costs_no_end(url: str) -> None:
    """Else it would be in hand for ever, renewed with every beat and run by nobody."""
    loop = asyncio.new_event_loop()
    loop.close()  # nothing starts on it any more
    with closing(Desk(url, loop)) as desk:
        _check_start_that_fails(desk)


def _check_start_that_fails(desk: Desk) -> None:
    ended = [desk.lend(f"{number}") for number in range(10)]
    desk.bench.keep(ended)
    desk.bench.return_unstarted(lambda _: True, "handed back")
    desk.bench.keep([desk.lend("unstarted")])
    time.sleep(0.06)  # the pace is taken over a span: so many ends in it, and none waits for company

    with pytest.raises(RuntimeError, match="closed"):
        _turn(desk.pump, times=2)

    assert [desk.hand.get(one.fence) for one in ended] == [None] * len(ended)


def test_runs_that_settled_themselves_are_counted_together(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one they took a tenth of the processor time of an exactly-once job."""
    counted = list[int]()

    def note_done(_tally: Tally, holdings: list[Holding], _settled_at: float) -> None:
        counted.append(len(holdings))

    monkeypatch.setattr(Tally, "note_done", note_done)
    with closing(asyncio.new_event_loop()) as loop, closing(Desk(url, loop)) as desk:
        ended = [desk.lend(f"{number}") for number in range(5)]
        for holding in ended:
            getattr(desk.bench, "_end")(Concluded(holding, DONE, answer=Settled.SETTLED))  # noqa: B009  as a run does

        _turn(desk.pump, times=3)

        assert counted == [5]
        assert [desk.hand.get(one.fence) for one in ended] == [None] * 5


def _turn(pump: Pump, *, times: int) -> None:
    for _ in range(times):
        pump.turn()


async def test_a_claim_does_not_wait_for_what_is_done_beside_the_work(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with schedules goes to the store again at once, and has first to see that they are there."""
    with closing(Desk(url, asyncio.get_running_loop())) as desk:
        await _check_chores(desk, monkeypatch)


async def _check_chores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.app.schedule(name="nightly", every="1d", args=("nightly",))(desk.send)
    desk.send.enqueue("a")
    desk.send.enqueue("b")
    look_up, unstarted = desk.app.store.records, list[int]()

    def records(kind: str) -> Operation[dict[str, str]]:
        unstarted.append(desk.bench.buffered)
        return look_up(kind)

    monkeypatch.setattr(desk.app.store, "records", records)

    desk.pump.turn()

    assert unstarted == [0]
    await _let_run()  # before the loop ends


async def test_a_claim_that_is_still_packed_when_the_store_goes_away_is_not_handed_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage whatever is not in hand is handed back: else it would run here and elsewhere."""
    with closing(Desk(url, asyncio.get_running_loop())) as desk:
        await _check_outage(desk, monkeypatch)


def _lend_packed(desk: Desk) -> str:
    """A job of which the worker has only heard: it goes to the store again before it unpacks."""
    desk.app.schedule(name="nightly", every="1d", args=("nightly",))(desk.send)
    desk.pump.turn()
    handle = desk.send.enqueue("a")
    desk.send.enqueue("b")
    _turn(desk.pump, times=3)  # schedules are seen to first
    assert (len(desk.hand), desk.bench.buffered) == (0, 1)
    return handle.id


async def _check_outage(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = _lend_packed(desk)
    answering, is_away, is_over = desk.app.store.run, iter([True]), iter([False, False, True])

    def run(operation: Operation[Any]) -> Any:
        if next(is_away, False):
            raise StoreUnavailable("away")
        return answering(operation)

    monkeypatch.setattr(desk.app.store, "run", run)
    desk.pump.run(lambda: next(is_over))

    job = desk.app.jobs.get(job_id)
    assert (job.state, job.epoch, len(desk.hand)) == (State.RUNNING, 1, 1)
    await _let_run()
    assert desk.ran == ["a"]


async def _let_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_claim_that_was_lost_while_it_was_packed_does_not_start(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat stops what is in hand, and knows nothing of the others; by now somebody else may have them."""
    with closing(Desk(url, asyncio.get_running_loop())) as desk:
        _lend_packed(desk)
        later = SystemClock().boot() + 2 * LEASE.total_seconds()
        monkeypatch.setattr(desk.beat, "_clock", lambda: later)  # a freeze, which no test can wait for
        desk.beat.beat()

        desk.pump.turn()

        assert (desk.bench.buffered, len(desk.hand)) == (0, 1)  # it waits to be handed back
        await _let_run()
        assert desk.ran == []


async def test_nothing_is_packed_while_the_store_is_asked_about_something_else(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Desk(url, asyncio.get_running_loop())) as desk:
        _lend_packed(desk)
        held, asking = list[int](), desk.app.store.run

        def run(operation: Operation[Any]) -> Any:
            held.append(len(desk.hand))
            return asking(operation)

        monkeypatch.setattr(desk.app.store, "run", run)
        desk.pump.tell(desk.lend("c"), Throttle("send", timedelta(seconds=1), "cluster", ""))
        held.clear()
        desk.pump.turn()

        assert held[0] == 2  # that one, and what was packed
        await _let_run()


async def test_a_schedule_that_leaves_the_code_while_it_is_lent_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever looks for schedules only where there are some now would keep it on loan for ever."""
    with closing(Desk("memory://", asyncio.get_running_loop())) as desk:
        app, asking = desk.app, desk.app.store.run
        app.schedule(name="nightly", every="1d", args=("nightly",))(desk.send)

        def run(operation: Operation[Any]) -> Any:
            answer = asking(operation)
            if operation.name == "turn" and answer.claimed.claims:
                app.schedule_terms.clear()
            return answer

        monkeypatch.setattr(app.store, "run", run)
        while app.schedule_terms:
            desk.pump.turn()
        _turn(desk.pump, times=2)

        (job,) = app.store.run(app.store.find(Selection(queues=ENGINE_QUEUES), Page(5)))
        assert (job.state, job.epoch) == (State.WAITING, 1)
