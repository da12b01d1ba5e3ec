"""The virtual world: whose store and clock are in force, and how time moves in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, Run, UnknownJob
from duly.clock import SystemClock
from duly.errors import DulyError
from duly.testing import WorkingClock, virtual

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def test_the_application_gets_its_store_and_clock_back() -> None:
    app = Duly("memory://")
    mail = app.task(name="mail")(lambda: None)
    kept = mail.enqueue()
    store, schedules, jobs = app.store, app.schedules, app.jobs

    with virtual(app) as clock:
        inside = mail.enqueue()
        assert app.clock is clock
        assert app.store is not store

    assert (app.store, app.schedules, app.jobs) == (store, schedules, jobs)
    assert isinstance(app.clock, SystemClock)
    assert app.jobs.get(kept).state == "waiting"
    with pytest.raises(UnknownJob):
        app.jobs.get(inside)


def test_everything_comes_back_when_the_test_fails() -> None:
    app = Duly("memory://")
    store = app.store

    with pytest.raises(ZeroDivisionError), virtual(app):
        raise ZeroDivisionError

    assert app.store is store
    assert "await_end" not in vars(app)


def test_closing_the_application_inside_does_not_bring_the_real_store_in(
    app: Duly, clock: WorkingClock
) -> None:
    @app.task
    def mail() -> None: ...

    app.close()
    mail.enqueue()

    clock.assert_enqueued(mail)


def test_one_world_inside_another_leaves_the_outer_one_alone(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    with virtual(app) as inner:
        assert inner.enqueued() == []
    assert app.clock is clock
    clock.assert_enqueued(mail)


def test_a_clock_whose_world_has_ended_refuses_to_run(app: Duly) -> None:
    with virtual(app) as clock:
        pass

    with pytest.raises(DulyError, match="with virtual"):
        clock.run_due()
    with pytest.raises(DulyError, match="with virtual"):
        clock.advance("1h")


def test_time_stands_still_and_moves_by_what_it_is_told(clock: WorkingClock) -> None:
    assert clock.now() == NOON

    assert clock.advance("1h") == NOON + timedelta(hours=1)
    assert clock.run_until(NOON + timedelta(hours=3)) == []
    assert clock.now() == NOON + timedelta(hours=3)
    clock.advance("30m", run=True)
    assert clock.now() == NOON + timedelta(hours=3, minutes=30)


def test_a_world_can_start_at_any_time(app: Duly) -> None:
    with virtual(app, start=datetime(2024, 2, 29, 23, 59, tzinfo=UTC)) as clock:
        assert clock.now().day == 29


def test_a_time_without_a_zone_is_refused(clock: WorkingClock) -> None:
    with pytest.raises(ValueError, match="time zone"):
        clock.run_until(datetime(2026, 3, 2, 13, 0))  # noqa: DTZ001


def test_a_body_reads_the_virtual_time(app: Duly, clock: WorkingClock) -> None:
    seen: list[datetime] = []

    @app.task
    def look(run: Run) -> None:
        seen.append(app.clock.now())

    look.using(run_after="90m").enqueue()
    clock.run_until("2h")

    assert seen == [NOON + timedelta(minutes=90)]


def test_requests_for_a_caller_s_transaction_count_at_once(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    with closing(sqlite3.connect(":memory:")) as connection:
        mail.using(connection=connection).enqueue()

    clock.assert_enqueued(mail)
