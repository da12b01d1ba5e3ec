"""Sums of runs by the minute: how a worker collects them, and how they are read as a series."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import Duly
from duly.errors import BadRequest, StoreUnavailable
from duly.job import Request
from duly.pulse import BOUNDS, KEPT, KIND, MOST_QUEUES, Depth, Pulse, Spread, Sum, packed, unpacked
from duly.stores.drive import Operation
from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock
from duly.testing.clock import START
from duly.worker.sounding import Sounding
from duly.worker.tally import EVERY, MOST, NEVER, Tally

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Desk:
    """A store, a worker's tally and a reader, on one clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.pulse = Pulse(lambda: self.store, lambda: self.clock)

    def tally(self, worker: str = "w1", ahead: timedelta = timedelta(0)) -> Tally:
        """Of a worker whose own clock is anything but the store's."""
        tally = Tally(self.store, worker, monotonic=self.clock.boot)
        tally.set_clock(self.clock.now() + ahead, self.clock.boot())
        return tally

    def runs(self, **which: Any) -> list[dict[str, int]]:
        return [dict(point.runs) for point in self.pulse.series(**which)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_runs_of_a_minute_are_added_up_by_outcome(desk: Desk) -> None:
    tally = desk.tally()
    for outcome in ("done", "done", "fail"):
        tally.note("mail", "io", outcome, 0.2, 2.0)
    tally.write()

    [point] = desk.pulse.series(past="1m")

    assert point.runs == {"done": 2, "fail": 1}
    assert (point.waited.size, point.took.size) == (3, 3)
    assert (round(point.waited.total, 6), point.took.mean) == (0.6, 2.0)


def test_steps_in_which_nothing_ran_are_there_too(desk: Desk) -> None:
    tally = desk.tally()
    tally.note("mail", "io", "done", None, None)
    desk.clock.advance(2 * MINUTE)
    tally.note("mail", "io", "done", None, None)
    tally.write()

    points = desk.pulse.series(past="4m")

    assert [dict(point.runs) for point in points] == [{}, {"done": 1}, {}, {"done": 1}]
    assert [point.at - START for point in points] == [-MINUTE, timedelta(0), MINUTE, 2 * MINUTE]


def test_workers_are_added_up_and_tasks_and_queues_told_apart(desk: Desk) -> None:
    for worker, task, queue in (("w1", "mail", "io"), ("w2", "mail", "cpu"), ("w3", "bill", "io")):
        tally = desk.tally(worker)
        tally.note(task, queue, "done", None, None)
        tally.write()

    assert desk.runs(past="1m") == [{"done": 3}]
    assert desk.runs(past="1m", task="mail") == [{"done": 2}]
    assert desk.runs(past="1m", task="mail", queue="io") == [{"done": 1}]


def test_a_minute_is_one_entry_however_often_it_is_written(desk: Desk) -> None:
    tally = desk.tally()
    for _ in range(3):
        tally.note("mail", "io", "done", None, None)
        tally.write()
        desk.clock.advance(SECOND)

    entries = desk.store.run(desk.store.diary(KIND, limit=10))

    assert len(entries) == 1
    assert desk.runs(past="1m") == [{"done": 3}]


def test_a_minute_that_is_over_is_done_with(desk: Desk) -> None:
    tally = desk.tally()
    for _ in range(5):
        tally.note("mail", "io", "done", None, None)
        tally.write()
        desk.clock.advance(MINUTE)

    assert desk.runs(past="6m") == [{"done": 1}] * 5 + [{}]
    assert len(desk.store.run(desk.store.diary(KIND, limit=10))) == 5


def test_nothing_is_written_while_nothing_runs(desk: Desk) -> None:
    tally = desk.tally()
    idle = tally.due
    tally.write()
    tally.note("mail", "io", "done", None, None)
    busy = tally.due
    tally.write()

    assert (idle, busy - desk.clock.boot(), tally.due) == (NEVER, EVERY, NEVER)
    assert len(desk.store.run(desk.store.diary(KIND, limit=10))) == 1


def test_minutes_are_those_of_the_stores_clock(desk: Desk) -> None:
    tally = Tally(desk.store, "w1", monotonic=lambda: 7.0)
    tally.note("mail", "io", "done", None, None)  # nobody knows when that was
    tally.set_clock(START, 7.0)
    tally.note("mail", "io", "done", None, None)
    tally.write()

    [point] = desk.pulse.series(past="1m")

    assert (point.at, point.runs) == (START, {"done": 1})


def test_very_many_tasks_share_a_sum(desk: Desk) -> None:
    tally = desk.tally()
    for number in range(MOST + 50):
        tally.note(f"task {number}", "io", "done", None, None)
    tally.write()

    assert desk.runs(past="1m") == [{"done": MOST + 50}]
    assert desk.runs(past="1m", task="") == [{"done": 50}]


class Away(MemoryStore):
    """A store that cannot be reached."""

    def run(self, operation: Operation[Any]) -> Any:
        raise StoreUnavailable("nobody answers")


def test_the_last_sums_are_not_worth_an_error(desk: Desk) -> None:
    tally = Tally(Away(clock=desk.clock), "w1", monotonic=desk.clock.boot)
    tally.set_clock(START, 0.0)
    tally.note("mail", "io", "done", None, None)

    tally.write_last()

    with pytest.raises(StoreUnavailable):
        tally.write()  # in the middle of work it is an outage like any other, and tried again
    assert tally.due != NEVER


def test_sums_are_read_back_as_they_were_written() -> None:
    one = Sum("mail", "io", "fail", 2)
    one.waited.add(0.3)
    one.took.add(99.0)

    minute, sums = unpacked(packed(5, "w1", [one]))

    assert (minute.minute, sums) == (5, [one])


QUANTILES = {0.5: 0.05, 0.9: 5.0, 0.99: float("inf")}


@pytest.mark.parametrize(("part", "end"), QUANTILES.items())
def test_a_quantile_is_the_end_of_its_bucket(part: float, end: float) -> None:
    spread = Spread()
    for seconds in [0.02] * 50 + [3.0] * 40 + [5000.0] * 10:
        spread.add(seconds)

    assert spread.quantile(part) == end


def test_a_spread_of_nothing_has_neither_mean_nor_quantile() -> None:
    assert (Spread().mean, Spread().quantile(0.5)) == (None, None)


@given(st.lists(st.floats(0, 1000) | st.sampled_from(BOUNDS)))
def test_many_lengths_at_once_are_spread_as_one_by_one(lengths: list[float]) -> None:
    one_by_one, at_once = Spread(), Spread()

    for length in lengths:
        one_by_one.add(length)
    at_once.add_all(lengths)

    assert at_once.counts == one_by_one.counts
    assert at_once.total == pytest.approx(one_by_one.total)


def test_what_is_on_a_bound_belongs_below_it() -> None:
    spread = Spread()
    spread.add(1.0)

    assert spread.quantile(1.0) == 1.0


def test_steps_are_whole_minutes(desk: Desk) -> None:
    with pytest.raises(BadRequest, match="whole number of minutes"):
        desk.pulse.series(step="90s")


def test_a_day_is_the_most(desk: Desk) -> None:
    assert len(desk.pulse.series(past="7d", step="1h")) == KEPT // timedelta(hours=1)


def test_a_worker_tells_its_pulse() -> None:
    app = Duly("memory://")

    @app.task
    def work(number: int) -> None:
        if number == 2:
            raise LookupError("no")

    work.enqueue_many([((number,), {}) for number in range(3)])
    app.run(burst=True)

    points = app.pulse.series(past="10m", task=work.name)
    assert sum((point.runs for point in points), start=points[0].runs.__class__()) == {"done": 2, "fail": 1}
    assert sum(point.waited.size for point in points) == 3
    assert sum(point.took.size for point in points) == 3


# --- how deep queues are --------------------------------------------------------------------------


def request(queue: str, name: str) -> Request:
    return Request(id=name, task="mail", arguments="[[],{}]", queue=queue)


def put(desk: Desk, *requests: Request) -> None:
    desk.store.run(desk.store.put(list(requests)))


def test_one_worker_of_many_writes_down_how_deep_queues_are(desk: Desk) -> None:
    put(desk, request("io", "1"), request("io", "2"), request("cpu", "3"), request("duly.schedules", "4"))
    desk.clock.advance("90s")
    workers = [Sounding(desk.store, desk.clock.now, desk.clock.boot) for _ in range(3)]

    for worker in workers:
        worker.take()

    assert desk.pulse.depths() == [Depth(desk.clock.now(), 3, 0, 90.0)]
    assert desk.pulse.depths(queue="cpu") == [Depth(desk.clock.now(), 1, 0, 90.0)]


def test_depths_come_in_order_and_are_forgotten_after_a_day(desk: Desk) -> None:
    sounding = Sounding(desk.store, desk.clock.now, desk.clock.boot)
    for number in range(3):
        put(desk, request("io", str(number)))
        sounding.take()
        desk.clock.advance("30s")

    waiting = [depth.waiting for depth in desk.pulse.depths()]
    desk.clock.advance(KEPT)

    assert waiting == [1, 2, 3]
    assert desk.pulse.depths(past=KEPT) == []


def test_queues_beyond_count_are_added_up_without_a_name(desk: Desk) -> None:
    put(desk, *(request(f"q{number}", str(number)) for number in range(MOST_QUEUES + 5)))

    Sounding(desk.store, desk.clock.now, desk.clock.boot).take()

    [whole], [rest] = desk.pulse.depths(), desk.pulse.depths(queue="")
    assert (whole.waiting, rest.waiting) == (MOST_QUEUES + 5, 5)


def test_nothing_is_looked_at_before_the_store_has_told_its_time(desk: Desk) -> None:
    sounding = Sounding(desk.store, lambda: None, desk.clock.boot)

    sounding.take()

    assert desk.pulse.depths() == []
    assert sounding.due > desk.clock.boot()
