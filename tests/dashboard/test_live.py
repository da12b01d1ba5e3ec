"""The live stream: what it sends, what it costs, and that it ends."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import Shop

from duly.cli.redaction import Redaction
from duly.dashboard.charts import MARKS, marks
from duly.dashboard.desk import Desk
from duly.dashboard.keeping import Aside, Kept
from duly.dashboard.live import BEAT, LONGEST, STREAMS, Live, Sample, drain
from duly.stores.contract import Attendance, WorkerCard
from duly.worker.sounding import Sounding

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def live_of(shop: Shop, *, beat: timedelta = BEAT, longest: timedelta = LONGEST) -> Live:
    return Live(Desk(shop.app, Redaction(shop.app)), beat, longest)


async def never() -> bool:
    return False


async def test_a_stream_sends_looks_until_it_has_lasted_long_enough(shop: Shop) -> None:
    shop.charge.enqueue(1)
    live = live_of(shop, beat=timedelta(milliseconds=1), longest=timedelta(milliseconds=3))

    events = [event async for event in live.stream(never)]

    assert len(events) == 3
    assert events[0].startswith("event: look\ndata: ")
    look = json.loads(events[0].partition("data: ")[2])
    assert look["jobs"]["waiting"] == 1
    assert live.streams == 0


async def test_a_stream_ends_when_its_browser_is_gone(shop: Shop) -> None:
    async def gone() -> bool:
        return True

    live = live_of(shop, beat=timedelta(milliseconds=1))

    assert len([event async for event in live.stream(gone)]) == 1


def test_further_browsers_are_told_to_poll_when_too_many_watch(shop: Shop) -> None:
    live = live_of(shop)
    live.streams = STREAMS

    assert live.is_full


def test_everybody_who_watches_shares_one_look(shop: Shop) -> None:
    numbers = iter(range(1, 100))
    kept = Kept(lambda: next(numbers), shop.clock.boot)

    answers = [kept.get() for _ in range(50)]
    shop.clock.advance("2s")
    answers.append(kept.get())

    assert answers == [1] * 50 + [2]


def test_a_look_that_takes_long_is_taken_less_often(shop: Shop) -> None:
    numbers = iter(range(1, 100))

    def slowly() -> int:
        shop.clock.advance("1s")
        return next(numbers)

    kept = Kept(slowly, shop.clock.boot)

    first = kept.get()
    shop.clock.advance("18s")
    same = kept.get()
    shop.clock.advance("2s")

    assert (first, same, kept.get()) == (1, 1, 2)


def test_polling_answers_with_all_samples(shop: Shop, operator: TestClient) -> None:
    shop.charge.enqueue(1)
    operator.get("/live.json")
    shop.clock.advance("10s")

    found = operator.get("/live.json").json()

    assert [sample[1:] for sample in found["samples"]] == [[1, 0, 0.0], [1, 0, 10.0]]


def test_the_version_changes_when_a_page_would(shop: Shop, operator: TestClient) -> None:
    def version() -> str:
        shop.clock.advance("3s")
        return str(operator.get("/live.json").json()["version"])

    shop.clock.run_due()  # the schedule has its job

    first, same = version(), version()
    shop.charge.using(run_after="1h").enqueue(1)

    assert same == first
    assert version() != first


def test_the_forecast_says_when_a_queue_is_empty_or_nothing() -> None:
    noon = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

    def samples(*waiting: int, late: float = 1.0) -> list[Sample]:
        return [Sample(noon + timedelta(seconds=2 * n), count, 0, late) for n, count in enumerate(waiting)]

    assert drain(samples(100, 90, 80, 70, 60)) == timedelta(seconds=12)
    assert drain(samples(60, 70, 80, 90, 100)) is None
    assert drain(samples(5, 5, 5, 5, 5)) is None
    assert drain(samples(9, 1)) is None
    assert drain(samples(100, 90, 80, 70, 60, late=0.0)) is None  # nothing of it is due


def test_a_page_that_is_opened_shows_how_deep_queues_were_before(shop: Shop, operator: TestClient) -> None:
    shop.charge.using(run_after="0s").enqueue(1)
    Sounding(shop.app.store, shop.clock.now, shop.clock.boot).take()
    earlier = shop.clock.now().timestamp()
    shop.clock.advance("5m")

    samples = operator.get("/live.json").json()["samples"]

    assert samples[0][:2] == [round(earlier, 1), 1]
    assert samples[-1][0] == round(earlier + 300, 1)


def test_nobody_waits_for_an_answer_that_takes_long(shop: Shop) -> None:
    may_end, answers = threading.Event(), iter(["first", "second"])

    def slowly() -> str:
        may_end.wait()
        return next(answers)

    aside = Aside(slowly, shop.clock.boot)

    before = aside.last()
    may_end.set()
    found = aside.get()

    assert (before, found, aside.last()) == (None, "first", "first")


def test_many_finished_jobs_are_counted_while_the_page_is_read(
    shop: Shop, operator: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.dashboard.desk.FEW", 0)
    shop.charge.enqueue(1)
    shop.clock.run_due()

    whole = operator.get("/api/summary").json()
    shop.clock.advance("3s")
    looked = operator.get("/live.json").json()

    assert (whole["jobs"]["done"], looked["jobs"]["done"]) == (1, 1)


def nothing_yet(_aside: Aside[object]) -> None:
    """As if counting had only just begun."""


def test_what_is_not_counted_yet_is_not_said_to_be_none(
    shop: Shop, operator: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.dashboard.desk.FEW", 0)
    monkeypatch.setattr(Aside, "last", nothing_yet)
    shop.charge.enqueue(1)
    shop.clock.run_due()

    page, looked = operator.get("/").text, operator.get("/live.json").json()

    assert "they are being counted" in page
    assert '<span class="number" data-count="done">…</span>' in page
    assert "done" not in looked["jobs"]


def worker(minute: float, version: str = "1.0", *, is_alive: bool = True) -> Attendance:
    started_at = NOON + timedelta(minutes=minute)
    return Attendance(WorkerCard(str(minute), "w", "web-1", 1, started_at, version=version), NOON, is_alive)


def test_workers_that_start_one_after_the_other_are_one_mark() -> None:
    found = marks([worker(11.5, "1.1"), worker(0), worker(10, "1.1"), worker(0.9), worker(11, "1.1")])

    assert [(mark.at, mark.label) for mark in found] == [
        (NOON, "2 started"),
        (NOON + timedelta(minutes=10), "3 started, 1.1"),
    ]


def test_the_dead_leave_no_mark_and_of_many_the_latest_are_shown() -> None:
    found = marks([worker(minute, "", is_alive=minute != 0) for minute in range(0, 100, 10)])

    assert [mark.label for mark in found] == ["1 started"] * MARKS
    assert found[-1].at == NOON + timedelta(minutes=90)


def test_a_look_tells_when_workers_started(shop: Shop) -> None:
    card = WorkerCard("a", "w", "web-1", 1, shop.clock.now(), version="1.0")
    shop.app.store.run(shop.app.store.renew(card, [], timedelta(minutes=1)))

    [[at, label]] = live_of(shop).look()["marks"]

    assert (at, label) == (round(shop.clock.now().timestamp(), 1), "1 started")
