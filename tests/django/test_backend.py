"""The contract of Django Tasks, on both databases."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.django.project.shop import tasks
from tests.django.project.shop.models import Mark
from tests.django.site import django_version
from tests.django.test_transactions import settings

import duly
from duly.django import DulyBackend, compat, engine
from duly.errors import WrongSignature
from duly.job import Request

Status: Any = compat.TaskResultStatus


def work(alias: str) -> None:
    """Run all that is ready."""
    engine(alias).run(burst=True)


def enqueued(alias: str, task: Any, *args: Any, **kwargs: Any) -> Any:
    """A request on that backend."""
    return task.using(backend=alias).enqueue(*args, **kwargs)


def done(alias: str, task: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a request after a worker was there."""
    result = enqueued(alias, task, *args, **kwargs)
    work(alias)
    result.refresh()
    return result


@contextmanager
def heard(name: str) -> Generator[list[Any]]:
    """What a signal sends meanwhile."""
    calls: list[Any] = []

    def receive(sender: Any, task_result: Any, **kwargs: Any) -> None:
        calls.append((sender, task_result, task_result.status, sys.exc_info()[0]))

    signal = getattr(compat.signals(), name)
    signal.connect(receive)
    try:
        yield calls
    finally:
        signal.disconnect(receive)


def test_a_task_runs_and_its_value_is_there(backend: str) -> None:
    result = enqueued(backend, tasks.add, 1, two=2)
    before = result.status

    work(backend)
    found = tasks.add.using(backend=backend).get_result(result.id)

    assert (before, result.status) == (Status.READY, Status.READY)
    assert (found.status, found.return_value) == (Status.SUCCESSFUL, 3)
    assert (found.args, found.kwargs, found.backend) == ([1], {"two": 2}, backend)
    assert found.enqueued_at <= found.started_at <= found.finished_at
    assert found.last_attempted_at == found.started_at
    assert found.attempts == 1
    assert found.errors == []


def test_a_result_knows_its_task_with_all_it_was_told(backend: str) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    used = tasks.worded.using(
        backend=backend, priority=-3, run_after=at, key="another", unique_for="2m", overlap="queue_one"
    ).using(queue_name="io" if backend == "default" else "anything")

    result = used.enqueue("x")
    found = used.get_result(result.id)

    assert found.task == used
    assert found.task != tasks.worded
    assert result.task == used
    assert found.status == Status.READY


def test_a_task_may_wait_for_a_length_of_time(backend: str) -> None:
    used = tasks.add.using(backend=backend, run_after=timedelta(hours=1))

    result = used.enqueue(1, 2)
    work(backend)
    found = used.get_result(result.id)

    assert (found.status, found.task.run_after) == (Status.READY, timedelta(hours=1))


def test_the_context_comes_first(backend: str) -> None:
    result = done(backend, tasks.who)

    assert result.return_value == [1, result.id, "RUNNING"]


async def test_async_tasks_are_awaited(backend: str) -> None:
    used = tasks.later.using(backend=backend)
    result = await used.aenqueue("quiet")

    await engine(backend).worker(burst=True).serve()
    await result.arefresh()

    assert (result.status, result.return_value) == (Status.SUCCESSFUL, "QUIET")
    assert (await used.aget_result(result.id)).return_value == "QUIET"


@pytest.mark.parametrize(
    ("task", "path", "text"),
    [
        (tasks.fails, "tests.django.project.shop.tasks.Refused", "raise Refused(text)"),
        (tasks.leaves, "builtins.SystemExit", "SystemExit: 3"),
        (tasks.odd_value, "builtins.TypeError", "Unsupported type"),
        (tasks.endless, "duly.errors.JobFailed", "hard limit of 1 s exceeded"),
    ],
)
def test_a_failure_is_told_with_its_class_and_traceback(
    default: str, task: Any, path: str, text: str
) -> None:
    result = done(default, task, *(["why"] if task is tasks.fails else []))

    assert result.status == Status.FAILED
    assert [error.exception_class_path for error in result.errors] == [path]
    assert text in result.errors[0].traceback
    assert issubclass(result.errors[0].exception_class, BaseException)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {1: 2}, {"deep": [{None: 1}]}, datetime.now(UTC), object(), {1, 2}]
)
def test_what_would_not_come_back_as_it_was_is_refused_with_nothing_stored(default: str, value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported"):
        tasks.mark.enqueue(value)

    assert engine().jobs.count() == 0


def test_arguments_the_function_does_not_take_are_refused(default: str) -> None:
    with pytest.raises(WrongSignature, match="missing a required argument: 'two'"):
        tasks.add.enqueue(1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"run_after": datetime(2026, 1, 1)}, "aware"),  # noqa: DTZ001
        ({"run_after": timedelta(seconds=-1)}, "negative"),
        ({"priority": 101}, "whole number"),
        ({"queue_name": "nowhere"}, "nowhere"),
        ({"overlap": "sometimes"}, "overlap is 'sometimes'"),
        ({"retry": None}, "@task"),
    ],
)
def test_words_that_cannot_be_are_refused(default: str, words: dict[str, Any], text: str) -> None:
    with pytest.raises(compat.InvalidTask, match=text):
        tasks.add.using(**words)


def test_the_larger_priority_runs_first(backend: str) -> None:
    for priority in (-5, 0, 50, 7):
        tasks.noted.using(backend=backend, priority=priority).enqueue(str(priority))

    engine(backend).run(burst=True, concurrency=1)

    assert tasks.ORDER == ["50", "7", "0", "-5"]


def test_a_retry_keeps_one_error_for_each_failed_attempt(backend: str) -> None:
    with heard("task_finished") as finished, heard("task_started") as started:
        result = done(backend, tasks.stubborn, 3)

    assert (result.status, result.return_value, result.attempts) == (Status.SUCCESSFUL, 3, 3)
    assert [error.exception_class for error in result.errors] == [tasks.Refused] * 2
    assert [error.traceback.rpartition(": ")[2] for error in result.errors] == ["attempt 1", "attempt 2"]
    assert [status for _, _, status, _ in started] == [Status.RUNNING] * 3
    assert [status for _, _, status, _ in finished] == [Status.SUCCESSFUL]
    assert result.started_at < result.last_attempted_at < result.finished_at


def test_a_retry_that_gives_up_has_failed_once(default: str) -> None:
    with heard("task_finished") as finished:
        result = done(default, tasks.stubborn, 9)

    assert (result.status, result.attempts) == (Status.FAILED, 3)
    assert [error.exception_class for error in result.errors] == [tasks.Refused] * 3
    assert [(sender, status, raised) for sender, _, status, raised in finished] == [
        (DulyBackend, Status.FAILED, tasks.Refused)
    ]


def test_the_end_that_a_limit_brings_is_signalled_too(default: str) -> None:
    with heard("task_finished") as finished:
        done(default, tasks.endless)

    assert [status for _, _, status, _ in finished] == [Status.FAILED]


def test_receivers_of_task_finished_find_in_the_store_what_they_are_told(default: str) -> None:
    found: list[Any] = []

    def receive(sender: Any, task_result: Any, **kwargs: Any) -> None:
        found.append((sender, tasks.add.get_result(task_result.id).status))

    compat.signals().task_finished.connect(receive)
    done(default, tasks.add, 1, 2)
    compat.signals().task_finished.disconnect(receive)

    assert found == [(DulyBackend, Status.SUCCESSFUL)]


def test_task_enqueued_tells_of_what_is_stored(default: str) -> None:
    with heard("task_enqueued") as calls:
        result = tasks.add.enqueue(1, 2)

    assert [(sender, told.id) for sender, told, _, _ in calls] == [(DulyBackend, result.id)]
    assert result.enqueued_at is not None


@pytest.mark.parametrize("wrong", ["", "no such id", "a" * 65, "nul\x00", "½", None, 7])
def test_an_id_that_leads_nowhere_has_no_result(backend: str, wrong: Any) -> None:
    with pytest.raises(compat.TaskResultDoesNotExist):
        compat.task_backends[backend].get_result(wrong)


def test_a_result_of_another_task_is_a_mismatch(default: str) -> None:
    result = tasks.add.enqueue(1, 2)

    with pytest.raises(compat.TaskResultMismatch):
        tasks.mark.get_result(result.id)


def test_a_path_that_is_no_task_is_neither_enqueued_nor_called(default: str) -> None:
    path = "tests.django.project.shop.tasks.plain_function"
    app = engine()

    with pytest.raises(compat.InvalidTask, match="no worker could find it"):
        tasks.elsewhere_named.enqueue()
    app.store.run(app.store.put([Request(id="stray", task=path, arguments="[[],{}]")]))
    work(default)

    assert app.jobs.get("stray").state == "waiting"
    with pytest.raises(compat.TaskResultDoesNotExist):
        compat.task_backends["default"].get_result("stray")


def test_a_job_cancelled_is_a_failure_to_django(default: str) -> None:
    result = tasks.add.enqueue(1, 2)

    engine().jobs.cancel(result.id)
    result.refresh()

    assert result.status == Status.FAILED
    assert [error.exception_class_path for error in result.errors] == ["duly.errors.JobCancelled"]


def test_a_body_in_a_child_process_has_the_project_set_up(default: str) -> None:
    result = done(default, tasks.elsewhere)

    assert result.status == Status.SUCCESSFUL
    assert result.return_value != os.getpid()


def test_effect_and_completion_of_an_exactly_once_task_commit_together(backend: str) -> None:
    good = enqueued(backend, tasks.mark_once, "good", backend)
    bad = enqueued(backend, tasks.mark_once, "bad", backend, fails=True)

    work(backend)
    good.refresh()
    bad.refresh()

    assert (good.status, bad.status) == (Status.SUCCESSFUL, Status.FAILED)
    assert [mark.text for mark in Mark.objects.using(backend).all()] == ["good"]


def test_connections_are_closed_after_a_task(default: str) -> None:
    done(default, tasks.look_at_connections)

    assert [connection.connection for connection in tasks.CONNECTIONS] == [None]


def test_a_second_request_within_the_window_is_the_first(backend: str) -> None:
    used = tasks.worded.using(backend=backend, queue_name="io" if backend == "default" else "any")
    first = used.using(key="lease:42", unique_for="2m").enqueue("a")
    second = used.using(key="lease:42", unique_for="2m").enqueue("b")

    assert first.id == second.id
    assert engine(backend).jobs.count() == 1


def test_results_that_are_not_kept_need_not_be_plain(default: str) -> None:
    result = done(default, tasks.keeps_nothing)

    assert (result.status, result.return_value) == (Status.SUCCESSFUL, None)


def test_what_the_caller_bound_travels_and_our_own_note_does_not(default: str) -> None:
    with duly.bind(lease_id=42):
        tasks.bound_there.using(priority=3).enqueue()
    work(default)

    outer, inner = tasks.BOUND
    assert outer == inner == {"lease_id": 42}


def test_a_task_cancelled_while_it_runs_has_failed(default: str) -> None:
    def cancel(sender: Any, task_result: Any, **kwargs: Any) -> None:
        engine().jobs.cancel(task_result.id)

    compat.signals().task_started.connect(cancel)
    with heard("task_finished") as finished:
        result = tasks.waits.enqueue()
        work(default)
    compat.signals().task_started.disconnect(cancel)
    result.refresh()

    assert result.status == Status.FAILED
    assert [status for _, _, status, _ in finished] == [Status.FAILED]


def test_moments_are_naive_without_use_tz(default: str) -> None:
    with settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        at = datetime.now(ZoneInfo("Asia/Tokyo")).replace(tzinfo=None) + timedelta(hours=1)
        result = tasks.add.using(run_after=at).enqueue(1, 2)
        found = tasks.add.get_result(result.id)
        due = engine().jobs.get(result.id).due

    assert found.task.run_after == at
    assert due == at.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
    assert abs(found.enqueued_at - (at - timedelta(hours=1))) < timedelta(minutes=1)


@pytest.mark.skipif(django_version() == (6, 0), reason="Django 6.0 takes no further keywords")
def test_a_wrong_declaration_is_refused_where_it_is_written() -> None:
    decorate: Callable[..., Any] = compat.task

    with pytest.raises(compat.InvalidTask, match="soft_limit"):
        decorate(soft_limit="2m", hard_limit="1m")(tasks.plain_function)
    with pytest.raises(compat.InvalidTask, match="async code"):
        decorate(delivery="exactly_once")(tasks.later.func)
