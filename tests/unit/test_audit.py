"""Who gave which order: written by whatever carries it out, whoever asked, and by nobody's mere program."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly
from duly.audit import KEPT
from duly.errors import UnknownSchedule
from duly.testing import WorkingClock, virtual


class Shop:
    """A shop whose clock stands still until it is moved."""

    def __init__(self) -> None:
        self.app = Duly("memory://")

        @self.app.schedule(cron="0 2 * * *", name="nightly")
        @self.app.task(name="shop.bill")
        def bill(order: int = 0) -> None:
            raise LookupError(f"order {order}")

        self.bill = bill
        self.clock: WorkingClock

    def told(self) -> list[tuple[str, str, dict[str, Any], int, int]]:
        """Oldest first."""
        deeds = self.app.audit.list()
        return [
            (deed.by, deed.order, dict(deed.about), deed.changed, deed.refused) for deed in reversed(deeds)
        ]


@pytest.fixture
def shop() -> Generator[Shop]:
    shop = Shop()
    with virtual(shop.app) as clock:
        shop.clock = clock
        yield shop


def test_an_order_to_one_job_is_told_with_its_giver_and_time(shop: Shop) -> None:
    job = shop.bill.enqueue(1)

    shop.app.jobs.cancel(job, by="ann")

    [deed] = shop.app.audit.list()
    assert (deed.by, deed.order, deed.about) == ("ann", "cancel", {"jobs": 1, "ids": [job.id]})
    assert (deed.changed, deed.refused, deed.is_complete) == (1, 0, True)
    assert deed.at == shop.clock.now()


def test_an_order_by_filters_is_told_with_them_and_counted(shop: Shop) -> None:
    shop.bill.enqueue_many([((number,), {}) for number in range(3)])
    shop.clock.run_due()

    shop.app.jobs.retry(task=shop.bill, state="failed", error="order", by="ann")

    about = {"task": ["shop.bill"], "state": ["failed"], "error": "order"}
    assert shop.told() == [("ann", "retry", about, 3, 0)]


def test_refusals_are_counted_apart(shop: Shop) -> None:
    job = shop.bill.enqueue(1)

    shop.app.jobs.retry(job, by="ann")

    assert shop.told() == [("ann", "retry", {"jobs": 1, "ids": [job.id]}, 0, 1)]


def test_of_many_ids_the_first_are_named(shop: Shop) -> None:
    jobs = shop.bill.enqueue_many([((number,), {}) for number in range(30)])

    shop.app.jobs.cancel(*jobs, by="ann")

    [deed] = shop.app.audit.list()
    assert (deed.about["jobs"], len(deed.about["ids"]), deed.changed) == (30, 20, 30)


def test_a_program_without_a_name_leaves_no_line(shop: Shop) -> None:
    shop.bill.enqueue(1).cancel()
    shop.app.pause(queue="default")
    shop.app.schedules.pause("nightly")

    assert shop.app.audit.list() == []


def test_orders_to_lanes_and_schedules_are_told(shop: Shop) -> None:
    app = shop.app
    app.pause(task=shop.bill, reason="a bug", by="ann")
    app.resume(task=shop.bill, by="bob")
    app.schedules.pause("nightly", by="ann")
    app.schedules.resume("nightly", by="ann")
    app.schedules.edit("nightly", cron="0 3 * * *", kwargs={"order": 42}, by="ann")
    app.schedules.reset("nightly", by="ann")
    app.schedules.trigger("nightly", by="ann")

    assert [(by, order, about) for by, order, about, _, _ in shop.told()] == [
        ("ann", "pause", {"task": "shop.bill", "reason": "a bug"}),
        ("bob", "resume", {"task": "shop.bill"}),
        ("ann", "pause", {"schedule": "nightly"}),
        ("ann", "resume", {"schedule": "nightly"}),
        ("ann", "edit", {"schedule": "nightly", "changes": ["cron", "kwargs"]}),
        ("ann", "reset", {"schedule": "nightly"}),
        ("ann", "trigger", {"schedule": "nightly"}),
    ]
    assert "42" not in str(app.audit.list())


def test_an_order_to_nobody_is_no_order(shop: Shop) -> None:
    with pytest.raises(UnknownSchedule):
        shop.app.schedules.pause("yearly", by="ann")
    with pytest.raises(TypeError):
        shop.app.jobs.cancel("some", colour="red", by="ann")

    assert shop.app.audit.list() == []


def test_postponing_tells_until_when(shop: Shop) -> None:
    job = shop.bill.enqueue(1)
    at = datetime(2030, 1, 1, tzinfo=UTC)

    shop.app.jobs.postpone(job, at=at, by="ann")

    assert shop.told()[0][2]["at"] == "2030-01-01T00:00:00+00:00"


def test_an_order_in_parts_can_be_one_line(shop: Shop) -> None:
    jobs = [shop.bill.enqueue(number) for number in range(3)]

    with shop.app.audit.one_order("cancel", {"task": "shop.bill"}, by="ann"):
        for job in jobs:
            shop.app.jobs.cancel(job, by="ann")

    assert shop.told() == [("ann", "cancel", {"task": "shop.bill"}, 3, 0)]


class Cut(Exception):
    """The operator's process died."""


def test_an_order_that_is_cut_short_is_told_as_such(shop: Shop) -> None:
    job = shop.bill.enqueue(1)

    def give() -> None:
        with shop.app.audit.one_order("cancel", {"task": "shop.bill"}, by="ann"):
            shop.app.jobs.cancel(job, by="ann")
            raise Cut

    with pytest.raises(Cut):
        give()

    [deed] = shop.app.audit.list()
    assert (deed.order, deed.changed, deed.is_complete) == ("cancel", 1, False)


def test_the_line_is_there_before_the_order_takes_effect(shop: Shop) -> None:
    with shop.app.audit.one_order("cancel", {"task": "shop.bill"}, by="ann"):
        [deed] = shop.app.audit.list()

    assert (deed.order, deed.changed, deed.is_complete) == ("cancel", 0, False)


def test_pages_go_on_from_a_number(shop: Shop) -> None:
    for number in range(5):
        shop.app.pause(queue=f"q{number}", by="ann")
    first = shop.app.audit.list(limit=2)

    rest = shop.app.audit.list(before=first[-1].number)

    assert [deed.about["queue"] for deed in [*first, *rest]] == ["q4", "q3", "q2", "q1", "q0"]


def test_orders_are_forgotten_after_ninety_days(shop: Shop) -> None:
    store = shop.app.store
    shop.app.pause(queue="io", by="ann")
    shop.clock.advance(KEPT - timedelta(seconds=1))
    store.run(store.prune(10))
    before = len(shop.app.audit.list())
    shop.clock.advance("1s")
    store.run(store.prune(10))

    assert (before, shop.app.audit.list()) == (1, [])


async def test_the_async_twins_write_and_read_the_same(shop: Shop) -> None:
    job = shop.bill.enqueue(1)
    await shop.app.jobs.acancel(job, by="ann")
    await shop.app.apause(queue="io", by="ann")
    await shop.app.aresume(queue="io", by="ann")

    deeds = await shop.app.audit.alist()

    assert [deed.order for deed in deeds] == ["resume", "pause", "cancel"]
