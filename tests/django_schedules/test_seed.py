"""What the description of exactly-once execution promises, point by point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.django.site import set_up
from tests.django_schedules.clockwork import Clockwork, give_up, marks

set_up()

from tests.django_schedules import tasks  # noqa: E402

from duly.django import executions, scheduled_task  # noqa: E402
from duly.django.executions import ID  # noqa: E402
from duly.django.models import TaskExecution  # noqa: E402
from duly.errors import DefinitionError  # noqa: E402

Handed = Callable[[], list[Any]]


def test_e1_by_default_a_tick_is_enqueued_and_the_worker_is_trusted(
    clockwork: Clockwork, handed: Handed
) -> None:
    clockwork.schedule(tasks.plain, name="hourly", kwargs={"text": "x"})

    clockwork.tick()
    clockwork.tick(minutes=1)

    (result,) = handed()
    assert (result.task.func, result.kwargs) == (tasks.plain.func, {"text": "x"})
    (execution,) = TaskExecution.objects.all()
    assert (execution.status, execution.hand_overs) == ("completed", 1)


def test_e2_a_guarded_tick_makes_a_pending_row_and_passes_its_id(
    clockwork: Clockwork, handed: Handed
) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")

    clockwork.tick()
    clockwork.tick(minutes=1)

    (result,) = handed()
    (execution,) = TaskExecution.objects.all()
    assert result.kwargs == {ID: "nightly@2026-11-16T12:01:00Z"}
    assert (execution.id, execution.status, execution.task) == (
        "nightly@2026-11-16T12:01:00Z",
        "pending",
        tasks.guarded.module_path,
    )


def test_e3_a_delivery_runs_only_a_pending_row_and_completes_it(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)
    (result,) = handed()

    for _ in range(3):
        tasks.guarded.func(**result.kwargs)
    tasks.guarded.func(**{ID: "nightly@missing"})

    assert marks() == ["guarded"]
    assert TaskExecution.objects.get().status == "completed"


def test_e4_of_two_deliveries_one_runs_without_a_held_lock(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)
    (result,) = handed()
    claim = executions.ledger().claim(result.kwargs[ID], makes_as=None)  # another worker is in the body

    tasks.guarded.func(**result.kwargs)  # returns: there is nothing to wait for

    assert marks() == []
    assert TaskExecution.objects.get().claims == 1
    assert claim


def test_e5_the_guard_above_the_task_is_an_error_that_shows_the_right_order() -> None:
    with pytest.raises(
        DefinitionError, match=r"(?s)above @task.*@scheduled_task.*@task\(\)\n +@exactly_once"
    ):
        executions.exactly_once(tasks.plain)
    with pytest.raises(DefinitionError, match=r"(?s)goes above @task.*@scheduled_task"):
        scheduled_task(cron="0 2 * * *")(tasks.plain.func)


def test_e6_a_direct_call_and_a_manual_enqueue_run_normally(clockwork: Clockwork) -> None:
    tasks.guarded.call("called")
    tasks.guarded.func("direct")
    tasks.guarded.using(backend="immediate").enqueue("enqueued")

    assert marks() == ["called", "direct", "enqueued"]
    assert not TaskExecution.objects.exists()


@pytest.mark.usefixtures("impatient")
def test_e7_a_stale_pending_row_is_handed_over_again_and_not_for_ever(
    clockwork: Clockwork, handed: Handed, caplog: pytest.LogCaptureFixture
) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)

    give_up()

    assert len(handed()) == 3
    assert TaskExecution.objects.get().status == "exhausted"
    assert "never completed" in caplog.text


def test_e7_the_terms_are_those_of_the_description() -> None:
    terms = executions.ledger().terms

    assert (terms.lost_after.total_seconds(), terms.interval.total_seconds()) == (60, 15)
    assert (terms.redeliver_after.total_seconds(), terms.max_hand_overs) == (300, 3)


def test_e8_completed_rows_are_deleted_after_a_day_and_pending_ones_kept(
    clockwork: Clockwork, handed: Handed
) -> None:
    from tests.django_schedules.databases import connections

    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)
    clockwork.tick(minutes=1)
    tasks.guarded.func(**handed()[0].kwargs)
    with connections["default"].cursor() as cursor:  # as if it had been long ago
        for column in ("created_at", "completed_at"):
            cursor.execute(f"update duly_ledger_receipt set {column} = {column} - 90000 * 1000000")

    executions.ledger().sweep()

    (left,) = TaskExecution.objects.all()
    assert (left.status, left.id) == ("pending", handed()[1].kwargs[ID])


def test_e9_rows_are_an_audit_trail_that_can_be_asked(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, name="nightly", kwargs={"text": "rent"}, priority=5)
    clockwork.tick()
    clockwork.tick(minutes=1)
    tasks.guarded.func(**handed()[0].kwargs)

    row = TaskExecution.objects.filter(status="completed", task=tasks.guarded.module_path).get()

    assert row.created_at <= row.handed_over_at <= row.completed_at
    assert (row.wish["schedule"], row.wish["kwargs"], row.wish["priority"]) == (
        "nightly",
        {"text": "rent"},
        5,
    )
