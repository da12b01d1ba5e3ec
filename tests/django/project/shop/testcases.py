"""Tests of the shop under Django's own runner, whose SQLite databases are in memory."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tests.django.project.shop.models import Mark
from tests.django.project.shop.tasks import add, mark, mark_once

from duly.django import engine
from duly.django.compat import TaskResultStatus

_test: Any = importlib.import_module("django.test")
TestCase: Any = _test.TestCase
TransactionTestCase: Any = _test.TransactionTestCase


class InATransaction(TestCase):  # type: ignore[misc]
    """Each test is rolled back, and its requests with it."""

    def test_a_request_is_there(self) -> None:
        result = add.enqueue(1, 2)

        assert engine().jobs.count() == 1
        assert add.get_result(result.id).status == TaskResultStatus.READY

    def test_no_request_of_another_test_is_there(self) -> None:
        assert engine().jobs.count() == 0
        mark.using(key="a", unique_for="2m").enqueue("x")


class WithNoFile(TestCase):  # type: ignore[misc]
    """There is nothing to open, and nothing is left behind."""

    def test_opening_the_engine_makes_no_file(self) -> None:
        engine().open()
        engine().close()

        assert list(Path.cwd().glob("*in-memory*")) == []
        assert engine().jobs.count() == 0


class WithAWorker(TransactionTestCase):  # type: ignore[misc]
    """What is committed is seen by the threads of a worker."""

    def test_a_worker_runs_what_waits(self) -> None:
        results = [mark.enqueue("one"), mark_once.enqueue("two")]

        engine().run(burst=True, concurrency=1)

        for result in results:
            result.refresh()
        assert [result.status for result in results] == [TaskResultStatus.SUCCESSFUL] * 2
        assert sorted(Mark.objects.values_list("text", flat=True)) == ["one", "two"]
