"""The admin's pages, asked as a browser asks them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.django.site import set_up
from tests.django_schedules.clockwork import Clockwork, give_up

set_up()

from tests.django_schedules import tasks  # noqa: E402

from duly.django import database_engine, scheduling  # noqa: E402
from duly.django.models import DatabaseSchedule, TaskExecution  # noqa: E402
from duly.kinds import periodic  # noqa: E402
from duly.schedules import TERMS  # noqa: E402
from duly.stores.contract import Delete, Selection  # noqa: E402

quote: Any = importlib.import_module("django.contrib.admin.utils").quote
Client: Any = importlib.import_module("django.test").Client
_auth: Any = importlib.import_module("django.contrib.auth.models")
LogEntry: Any = importlib.import_module("django.contrib.admin.models").LogEntry
override_settings: Any = importlib.import_module("django.test").override_settings

JOBS, SCHEDULES, WORKERS = "/admin/duly/job/", "/admin/duly/schedule/", "/admin/duly/worker/"
EXECUTIONS, ROWS = "/admin/duly/taskexecution/", "/admin/duly/databaseschedule/"


@pytest.fixture(autouse=True)
def _clean(registry: scheduling.Registry) -> Generator[None, None, None]:
    LogEntry.objects.all().delete()
    DatabaseSchedule.objects.all().delete()
    app = database_engine()
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        yield
    app.schedule_terms.clear()
    for selection in (Selection(), Selection(queues=(periodic.QUEUE,))):
        app.store.run(app.store.amend(selection, Delete()))
    for name in app.store.run(app.store.records(TERMS)):
        app.store.run(app.store.record(TERMS, name, None))


def browser(*permissions: str, is_superuser: bool = False) -> Any:
    """Somebody of the staff, with these permissions."""
    _auth.User.objects.filter(username="ann").delete()
    user = _auth.User.objects.create(username="ann", is_staff=True, is_superuser=is_superuser)
    user.user_permissions.set(_auth.Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer
    return str(answer.content.decode())


def failed_job(error: str = "the card was refused") -> str:
    """A job of a task that raises."""
    app = database_engine()

    def pay() -> None:
        raise RuntimeError(error)

    app.tasks.pop("shop.pay", None)
    task = app.task(name="shop.pay")(pay)
    job = task.using(key="order:7").enqueue()
    app.run(burst=True)
    app.tasks.pop("shop.pay")
    return str(job.id)


def test_jobs_are_listed_filtered_and_searched() -> None:
    job = failed_job()
    client = browser("view_job")

    by_word = ("?q=order:7", "?q=card+was", f"?q={job}")
    for query in ("", "?state=failed", "?task=shop.pay", "?queue=default", *by_word):
        assert job in text(client.get(JOBS + query)), query
    for query in ("?state=done", "?q=nothing+of+the+kind", "?queue=io"):
        assert job not in text(client.get(JOBS + query)), query


def test_a_jobs_page_shows_its_error_and_its_history_and_changes_nothing() -> None:
    job = failed_job("the card was refused")

    page = text(browser("view_job").get(f"{JOBS}{job}/change/"))

    assert "RuntimeError: the card was refused" in page
    assert "History" in page
    assert '<input type="text"' not in page.partition("content-main")[2]
    assert "Retry" not in page  # she may only look


def _stray(card: str) -> None:
    raise RuntimeError(f"no money on {card}")


def test_secrets_are_shown_neither_among_arguments_nor_where_texts_quote_them() -> None:
    job = tasks.guarded.using(backend="default").enqueue("rent")
    secret = tasks.hush.enqueue("4711", password="geheim", note="to be seen")
    stray: Any = database_engine().task(name="shop.stray")(_stray)
    unknown = stray.enqueue("4712")
    database_engine().run(burst=True)
    database_engine().tasks.pop("shop.stray")
    client = browser("view_job")

    pages = [text(client.get(f"{JOBS}{one}/change/")) for one in (job.id, secret.id, unknown.id)]
    pages.append(text(client.get(JOBS)))

    assert "rent" in pages[0]
    assert "to be seen" in pages[1]
    assert all("no money on ***" in page for page in pages[2:])
    assert not any(word in page for word in ("4711", "geheim", "4712") for page in pages)


def test_a_job_whose_code_breaks_when_it_is_imported_is_shown_without_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_deployed.py").write_text("raise RuntimeError('half a deploy')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    stray: Any = database_engine().task(name="half_deployed.stray")(_stray)
    job = stray.enqueue("4712")
    database_engine().run(burst=True)
    database_engine().tasks.pop("half_deployed.stray")
    client = browser("view_job")

    pages = [text(client.get(path)) for path in (JOBS, f"{JOBS}{job.id}/change/")]

    assert all("no money on ***" in page for page in pages)
    assert not any("4712" in page for page in pages)


def test_a_retry_needs_the_permission_and_leaves_a_line_in_the_log() -> None:
    job = failed_job()
    order = {"action": "retry", "_selected_action": [job]}

    refused = browser("view_job").post(JOBS, order)
    state_then = database_engine().jobs.get(job).state
    client = browser("view_job", "change_job")
    done = client.post(JOBS, order, follow=True)

    assert (refused.status_code, state_then) == (403, "failed")
    assert "Retry selected jobs: 1" in text(done)
    assert database_engine().jobs.get(job).state == "waiting"
    (entry,) = LogEntry.objects.all()
    assert (entry.user.username, entry.object_id) == ("ann", job)
    assert entry.change_message == "Retry selected jobs"
    assert "Done here" in text(client.get(f"{JOBS}{job}/change/"))


def test_a_cancel_from_the_jobs_own_page() -> None:
    app = database_engine()
    task = app.task(name="shop.wait")(lambda: None)
    job = task.using(run_after="1h").enqueue()
    app.tasks.pop("shop.wait")
    client = browser("view_job", "change_job")

    client.post(f"{JOBS}{job.id}/change/", {"action": "cancel"})
    again = client.post(f"{JOBS}{job.id}/change/", {"action": "cancel"}, follow=True)

    assert app.jobs.get(job.id).state == "cancelled"
    assert LogEntry.objects.count() == 1  # the second changed nothing
    assert job.id in text(again)


def test_what_is_gone_leads_back_to_the_list() -> None:
    answer = browser("view_job").get(f"{JOBS}no-such-job/change/", follow=True)

    assert "is not there any more" in text(answer)


def test_pages_are_for_those_who_may_look() -> None:
    client = browser()

    pages = (JOBS, SCHEDULES, WORKERS, EXECUTIONS, ROWS)
    assert [client.get(page).status_code for page in pages] == [403] * 5
    assert Client().get(JOBS).status_code == 302


def test_schedules_are_paused_resumed_and_run_now() -> None:
    scheduling.scheduled_task(cron="0 2 * * *", name="every night", backend="dummy")(tasks.guarded)
    client = browser("view_schedule", "change_schedule")
    chosen = {"_selected_action": ["every night"]}

    assert tasks.guarded.module_path in text(client.get(f"{SCHEDULES}?q=night&from=code"))
    client.post(SCHEDULES, {"action": "pause", **chosen})
    paused = text(client.get(f"{SCHEDULES}?paused=yes"))
    client.post(SCHEDULES, {"action": "resume", **chosen})
    client.post(SCHEDULES, {"action": "run_now", **chosen})
    database_engine().run(queues=[scheduling.QUEUE], burst=True)

    assert "every night" in paused
    assert "every night" not in text(client.get(f"{SCHEDULES}?paused=yes"))
    assert TaskExecution.objects.filter(id__startswith="every night@").count() == 1
    acts = list(LogEntry.objects.order_by("id").values_list("change_message", flat=True))
    assert [act.split()[0] for act in acts] == ["Pause", "Resume", "Run"]
    deeds = [deed for deed in database_engine().audit.list() if deed.about == {"schedule": "every night"}]
    assert {deed.by for deed in deeds} == {"ann"}
    assert [deed.order for deed in deeds] == ["trigger", "resume", "pause"]
    assert "0 2 * * *" in text(client.get(f"{SCHEDULES}{quote('every night')}/change/"))


def test_a_schedule_is_written_and_edited_in_the_admin() -> None:
    client = browser(is_superuser=True)
    words = {
        "name": "report",
        "task": tasks.guarded.module_path,
        "cron": "0 3 * * *",
        "timezone": "UTC",
        "args": "[]",
        "kwargs": "{}",
        "queue_name": "",
        "priority": "",
        "backend": "dummy",
        "enabled": "on",
    }

    wrong = text(client.post(f"{ROWS}add/", {**words, "cron": "0 0 31 2 *"}))
    client.post(f"{ROWS}add/", words)
    made = DatabaseSchedule.objects.get()
    client.post(f"{ROWS}{made.pk}/change/", {**words, "cron": "0 4 * * *"})

    assert "31 2" in wrong
    (view,) = [view for view in database_engine().schedules.list() if view.name == "report"]
    assert view.terms["cron"] == "0 4 * * *"  # in force before any scheduler has looked
    assert "database" in text(client.get(f"{SCHEDULES}?q=report"))
    assert "report" in text(client.get(f"{ROWS}?q=guarded&enabled__exact=1"))


@pytest.mark.usefixtures("impatient")
def test_executions_are_shown_and_what_was_given_up_is_handed_over_again(clockwork: Clockwork) -> None:
    clockwork.schedule(tasks.guarded, name="nightly")
    clockwork.tick()
    clockwork.tick(minutes=1)
    give_up()
    (execution,) = TaskExecution.objects.all()
    only_looking = browser("view_taskexecution")
    order = {"action": "hand_over_again", "_selected_action": [execution.id]}

    listed = text(only_looking.get(f"{EXECUTIONS}?status__exact=exhausted&q=nightly"))
    page = text(only_looking.get(f"{EXECUTIONS}{quote(execution.id)}/change/"))
    only_looking.post(EXECUTIONS, order)
    state_then = TaskExecution.objects.get().status
    acting = browser("view_taskexecution", "change_taskexecution")
    acting.post(EXECUTIONS, order)

    assert execution.id in listed
    assert 'name="_save"' not in page
    assert (state_then, TaskExecution.objects.get().status) == ("exhausted", "pending")
    assert LogEntry.objects.get().object_id == execution.id


async def test_workers_are_shown_while_they_serve() -> None:
    from asgiref.sync import sync_to_async

    app = database_engine()

    async with app.worker(queues=["io"], name="the one with the hat") as worker:
        client = await sync_to_async(browser)("view_worker")
        listed = text(await sync_to_async(client.get)(f"{WORKERS}?alive=yes"))
        page = text(await sync_to_async(client.get)(f"{WORKERS}{quote(worker.id)}/change/"))

    assert worker.id in listed
    assert "the one with the hat" in page
