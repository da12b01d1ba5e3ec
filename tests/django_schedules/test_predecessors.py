"""What went wrong elsewhere, once for each bug that a library of this kind is known to have had."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.django.site import set_up
from tests.django_schedules.clockwork import Clockwork, give_up

set_up()

from tests.django_schedules import tasks  # noqa: E402
from tests.django_schedules.sulking import Sulking  # noqa: E402

from duly.django import compat, executions, scheduler, scheduling  # noqa: E402
from duly.django.executions import ID  # noqa: E402
from duly.django.models import DatabaseSchedule, TaskExecution  # noqa: E402
from duly.django.registry import load  # noqa: E402
from duly.errors import DefinitionError, StoreBusy  # noqa: E402
from duly.ledger import Ledger  # noqa: E402

Handed = Callable[[], list[Any]]
ValidationError: Any = importlib.import_module("django.core.exceptions").ValidationError
transaction: Any = importlib.import_module("django.db.transaction")
NIGHTLY = "0 2 * * *"


@pytest.fixture(autouse=True)
def _no_rows() -> None:
    DatabaseSchedule.objects.all().delete()


def ids(handed: Handed) -> list[str]:
    return [str(result.kwargs[ID]) for result in handed()]


def row(name: str = "row", **words: Any) -> Any:
    """A schedule of the database on the dummy backend, saved as the admin saves it."""
    given = {"task": tasks.guarded.module_path, "cron": NIGHTLY, "backend": "dummy", **words}
    made = DatabaseSchedule(name=name, **given)
    made.full_clean()
    made.save()
    return made


def follow(clockwork: Clockwork) -> scheduler.Follower:
    scheduling.furnish(clockwork.app)
    follower = scheduler.Follower(clockwork.app)
    follower.look()
    return follower


def test_1_a_restart_loses_no_missed_run(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, cron=NIGHTLY, name="nightly")
    clockwork.tick()
    clockwork.clock.advance(timedelta(hours=15))  # nobody was there at two o'clock

    clockwork.restarted()
    clockwork.tick()

    assert ids(handed) == ["nightly@2026-11-17T02:00:00Z"]


def test_2_an_operators_pause_outlives_a_restart(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, name="minutely")
    clockwork.tick()
    clockwork.app.schedules.pause("minutely")

    clockwork.restarted()
    clockwork.tick(minutes=3)
    while_paused = handed()
    clockwork.app.schedules.resume("minutely")
    clockwork.tick()

    assert while_paused == []
    assert ids(handed) == ["minutely@2026-11-16T12:03:00Z"]


def test_3_a_row_with_the_name_of_a_code_schedule_is_an_error(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    made = row("nightly")
    clockwork.schedule(tasks.guarded, cron=NIGHTLY, name="nightly")

    with pytest.raises(ValidationError, match="Choose another name"):
        made.full_clean()
    with pytest.raises(DefinitionError, match="Two schedules are named 'nightly'"):
        scheduler.check_names()
    follow(clockwork)  # a row that came later, past the admin: the code's stays in force
    made.refresh_from_db()
    assert "stands still" in caplog.text
    assert (made.cron, clockwork.app.schedule_terms["nightly"]["cron"]) == (NIGHTLY, NIGHTLY)


def test_4_an_edit_takes_effect_at_once(clockwork: Clockwork, handed: Handed) -> None:
    made = row(cron="0 0 1 1 *")
    DatabaseSchedule.objects.update(created_at=clockwork.clock.now())
    follower = follow(clockwork)
    clockwork.tick()

    DatabaseSchedule.objects.filter(pk=made.pk).update(cron="* * * * *")
    follower.look()
    clockwork.tick(minutes=1)

    assert ids(handed) == ["row@2026-11-16T12:01:00Z"]


def test_5_a_hand_over_that_fails_takes_no_other_with_it(
    clockwork: Clockwork, handed: Handed, sulking: type[Sulking]
) -> None:
    for name in ("a", "b", "c"):
        clockwork.schedule(tasks.guarded, name=name, backend="sulking")
    clockwork.tick()
    sulking.refusals = 1

    clockwork.tick(minutes=1)

    assert len(handed()) == 2
    assert TaskExecution.objects.filter(status="pending").count() == 3


def test_6_the_id_of_an_execution_is_the_same_at_every_delivery(clockwork: Clockwork, handed: Handed) -> None:
    """An e-mail is no row: what must not be sent twice is told apart by this."""
    clockwork.schedule(tasks.guarded, name="mail", kwargs={"text": "fails"})
    clockwork.tick()
    clockwork.tick(minutes=1)
    (result,) = handed()

    for _ in range(2):
        with pytest.raises(ValueError, match="after the effect"):
            tasks.guarded.func(**result.kwargs)

    execution = TaskExecution.objects.get()
    assert (execution.id, execution.claims, execution.status) == (result.kwargs[ID], 2, "pending")


def test_8_a_start_of_the_old_version_does_not_stop_what_the_new_one_added(
    clockwork: Clockwork, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    clockwork.schedule(tasks.guarded, name="old")
    clockwork.schedule(tasks.guarded, name="new")
    clockwork.tick()
    new = clockwork.app
    monkeypatch.setattr(scheduling, "registry", scheduling.Registry())
    clockwork.schedule(tasks.guarded, name="old")
    clockwork.restarted()  # as of the old version
    clockwork.tick(minutes=1)
    by_old = ids(handed)

    new.run(queues=[scheduling.QUEUE], burst=True)

    assert by_old == ["old@2026-11-16T12:01:00Z"]
    assert ids(handed) == [*by_old, "new@2026-11-16T12:01:00Z"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("task", [tasks.guarded, tasks.plain])
def test_9_a_run_that_could_not_be_handed_over_is_not_dropped(
    clockwork: Clockwork, handed: Handed, sulking: type[Sulking], task: Any
) -> None:
    clockwork.schedule(task, name="nightly", backend="sulking")
    clockwork.tick()
    sulking.refusals = 1
    clockwork.tick(minutes=1)
    before = (handed(), TaskExecution.objects.get().hand_overs)

    executions.ledger().sweep()

    assert before == ([], 0)
    assert {result.task.func for result in handed()} == {task.func}


def test_9_a_tick_that_finds_its_database_locked_is_made_later(
    clockwork: Clockwork, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    issue = Ledger.issue

    def refused(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(Ledger, "issue", issue)
        raise StoreBusy("database is locked")

    monkeypatch.setattr(Ledger, "issue", refused)
    clockwork.tick(minutes=1)
    before = ids(handed)

    clockwork.tick(seconds=2)

    assert (before, ids(handed)) == ([], ["nightly@2026-11-16T12:01:00Z"])


@pytest.mark.usefixtures("impatient")
def test_10_what_was_given_up_is_shown_and_can_be_tried_again(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)
    give_up()
    (given_up,) = TaskExecution.objects.filter(status="exhausted")

    executions.ledger().retry(given_up.id)
    executions.ledger().sweep()
    tasks.guarded.func(**handed()[-1].kwargs)

    assert TaskExecution.objects.get().status == "completed"


def test_12_nothing_is_enqueued_by_a_tick_that_does_not_commit(clockwork: Clockwork, handed: Handed) -> None:
    for task in (tasks.plain, tasks.guarded):
        clockwork.schedule(task, name=task.name)
    wishes = [declared.wish for declared in scheduling.registry.all()]

    with transaction.atomic():
        for one in wishes:
            scheduling.tick(Instant(), dict(one))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        inside = TaskExecution.objects.count()
        transaction.set_rollback(True)

    assert inside == 2
    assert handed() == []
    assert not TaskExecution.objects.exists()


class Instant:
    """As much of a run as a tick looks at."""

    from duly.clock import SystemClock

    tick = SystemClock().now()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"cron": "0 0 31 2 *"}, "31 2"),
        ({"cron": "every day"}, "every day"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"task": "tests.django_schedules.tasks.nothing"}, "nothing"),
        ({"task": "os.system"}, "os.system"),
        ({"args": {"a": 1}}, "no JSON list"),
        ({"kwargs": [1]}, "no JSON object"),
        ({"backend": "nowhere"}, "nowhere"),
        ({"queue_name": "unknown", "backend": "default"}, "unknown"),
    ],
)
def test_13_a_row_that_could_never_run_is_refused_where_it_is_written(words: Any, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        row(**words)


def test_14_intervals_windows_and_limits_for_late_runs_are_taken(
    clockwork: Clockwork, handed: Handed
) -> None:
    start = clockwork.clock.now() + timedelta(minutes=10)
    scheduling.scheduled_task(
        every="5m", name="often", backend="dummy", start=start, end=start + timedelta(minutes=8), missed="all"
    )(tasks.guarded)
    clockwork.tick()

    clockwork.tick(minutes=9)
    too_early = handed()
    clockwork.tick(minutes=30)
    ticks = sorted(ids(handed))
    scheduling.scheduled_task(cron=NIGHTLY, name="strict", backend="dummy", grace="1m", missed="skip")(
        tasks.guarded
    )
    clockwork.tick()
    clockwork.tick(hours=20)

    assert too_early == []
    assert ticks == ["often@2026-11-16T12:10:30Z", "often@2026-11-16T12:15:30Z"]
    assert sorted(ids(handed)) == ticks  # two o'clock was too long ago


def test_14_a_run_that_takes_longer_than_its_interval_is_not_overtaken(
    clockwork: Clockwork, handed: Handed
) -> None:
    clockwork.schedule(tasks.guarded, name="long", overlap="skip")
    clockwork.tick()
    clockwork.tick(minutes=1)

    clockwork.tick(minutes=1)
    meanwhile = ids(handed)
    tasks.guarded.func(**handed()[0].kwargs)
    clockwork.tick(minutes=1)

    assert meanwhile == ["long@2026-11-16T12:01:00Z"]
    assert ids(handed) == [*meanwhile, "long@2026-11-16T12:03:00Z"]
    with pytest.raises(DefinitionError, match="guard it"):
        clockwork.schedule(tasks.plain, name="who knows", overlap="skip")


def test_two_code_schedules_of_one_name_are_an_error(registry: scheduling.Registry) -> None:
    scheduling.scheduled_task(cron=NIGHTLY, name="nightly")(tasks.guarded)

    with pytest.raises(DefinitionError, match="Two schedules are named"):
        scheduling.scheduled_task(cron=NIGHTLY, name="nightly")(tasks.plain)
    with pytest.raises(DefinitionError, match="scheduled twice"):
        scheduling.scheduled_task(cron="0 3 * * *", name="nightly")(tasks.guarded)
    scheduling.scheduled_task(cron=NIGHTLY, name="nightly")(tasks.guarded)  # imported once more


def test_a_deleted_row_stands_still_and_a_new_one_of_its_name_begins_afresh(
    clockwork: Clockwork, handed: Handed
) -> None:
    made = row(cron="* * * * *")
    DatabaseSchedule.objects.update(created_at=clockwork.clock.now())
    follower = follow(clockwork)
    clockwork.tick()

    made.delete()
    follower.look()
    clockwork.tick(minutes=5)
    while_gone = handed()
    row(cron="* * * * *")
    DatabaseSchedule.objects.update(created_at=clockwork.clock.now())
    follower.look()
    clockwork.tick(minutes=1)

    assert while_gone == []
    assert ids(handed) == ["row@2026-11-16T12:06:00Z"]


def test_a_row_that_cannot_be_served_is_told_of_once_and_costs_no_other_its_turn(
    clockwork: Clockwork, handed: Handed, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "whole"):
        row(name, cron="* * * * *")
    DatabaseSchedule.objects.filter(name="broken").update(task="shop.tasks.gone")
    DatabaseSchedule.objects.update(created_at=clockwork.clock.now())
    follower = follow(clockwork)

    follower.look()
    clockwork.tick()
    clockwork.tick(minutes=1)

    assert caplog.text.count("'broken' stands still") == 1
    assert ids(handed) == ["whole@2026-11-16T12:01:00Z"]


async def test_a_worker_that_serves_takes_up_a_schedule_that_comes_later(clockwork: Clockwork) -> None:
    clockwork.clock.advance(timedelta(hours=1))
    scheduling.furnish(clockwork.app)
    late = scheduling.declare(
        tasks.guarded.using(backend="dummy"),
        "late",
        ((), {}),
        {"every": "1s", "start": clockwork.clock.now()},
    )

    async with clockwork.app.worker(queues=[scheduling.QUEUE]):
        clockwork.app.schedule_terms["late"] = late.terms()
        await asyncio.to_thread(scheduling.bring, clockwork.app, [late])
        clockwork.clock.advance(timedelta(seconds=5))
        for _ in range(400):
            if await asyncio.to_thread(TaskExecution.objects.filter(id__startswith="late@").exists):
                break
            clockwork.app.store.ring()
            await asyncio.sleep(0.05)

    assert await asyncio.to_thread(TaskExecution.objects.filter(id__startswith="late@").exists)


def test_effects_in_another_database_are_guarded_there(clockwork: Clockwork, handed: Handed) -> None:
    clockwork.schedule(tasks.elsewhere, name="far")
    clockwork.tick()
    clockwork.tick(minutes=1)
    (result,) = handed()

    for _ in range(2):
        tasks.elsewhere.func(**result.kwargs)

    assert not TaskExecution.objects.exists()
    (execution,) = TaskExecution.objects.using("other")
    assert (execution.id, execution.status) == (result.kwargs[ID], "completed")


def test_a_path_that_names_no_task_is_never_called() -> None:
    with pytest.raises(LookupError):
        load("os.getcwd")
    assert compat.import_string("os.getcwd")  # it is there, and stays alone
