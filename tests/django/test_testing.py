"""The backends for tests take what DulyBackend takes and refuse what it refuses."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.django.project.shop import tasks
from tests.django.site import OURS, Site, django_version

from duly import Retry
from duly.django import compat, engine
from duly.errors import BadRequest
from duly.testing import virtual

Status: Any = compat.TaskResultStatus
BACKENDS = ("immediate", "dummy")


@pytest.mark.skipif(django_version() == (6, 0), reason="Django 6.0 takes no further keywords")
@pytest.mark.parametrize("backend", BACKENDS)
def test_djangos_decorator_takes_our_options_on_them(backend: str) -> None:
    made = compat.task(backend=backend, retry=Retry(on=OSError), hard_limit="2m", unique_for="1m")(
        tasks.plain_function
    )

    assert (made.hard_limit, made.unique_for) == ("2m", "1m")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [math.nan, {1: 2}])
def test_they_refuse_arguments_that_would_not_come_back(backend: str, value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported"):
        tasks.worded.using(backend=backend, queue_name="default").enqueue(value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_they_refuse_a_guard_without_a_key(backend: str) -> None:
    used = tasks.add.using(backend=backend, unique_for="2m")

    with pytest.raises(BadRequest, match="needs to know about what"):
        used.enqueue(1, 2)


def test_the_immediate_one_runs_at_once_whatever_it_should_wait_for() -> None:
    used = tasks.add.using(backend="immediate", run_after=timedelta(hours=1), key="sum", unique_for="1m")

    result = used.enqueue(1, 2)

    assert (result.status, result.return_value) == (Status.SUCCESSFUL, 3)


def test_the_dummy_one_remembers_what_was_asked_for() -> None:
    backend: Any = compat.task_backends["dummy"]
    backend.clear()

    tasks.add.using(backend="dummy", key="sum").enqueue(1, 2)

    assert [(result.task.key, result.args) for result in backend.results] == [("sum", [1, 2])]


def test_under_the_virtual_clock_a_task_waits_and_is_tried_again(default: str) -> None:
    with virtual(engine()) as clock:
        waiting = tasks.add.using(run_after=timedelta(hours=1)).enqueue(1, 2)
        tried = tasks.stubborn.enqueue(2)
        clock.run_due()
        tried.refresh()
        waiting.refresh()
        before = waiting.status
        clock.advance("1h")
        clock.run_due()
        waiting.refresh()

    assert (tried.status, tried.attempts, len(tried.errors)) == (Status.SUCCESSFUL, 2, 1)
    assert (before, waiting.status) == (Status.READY, Status.SUCCESSFUL)


def test_under_djangos_test_runner_requests_live_in_the_tests_own_database(tmp_path: Path) -> None:
    in_memory = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}}
    site = Site(tmp_path, databases=in_memory, tasks=OURS)

    site.manage("test", "tests.django.project.shop.testcases", "-v", "0")

    assert not (tmp_path / "db.sqlite3").exists()
