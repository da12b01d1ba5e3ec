"""A project's own tests, as Django's runner runs them: in memory, each in a transaction that is undone."""

from __future__ import annotations

import importlib
import json
import unittest
from typing import Any

importlib.import_module("django").setup()

from tests.django.project.shop.models import Mark  # noqa: E402
from tests.django_schedules import tasks  # noqa: E402

from duly.django import executions, scheduling  # noqa: E402
from duly.django.models import TaskExecution  # noqa: E402

TestCase: Any = importlib.import_module("django.test").TestCase
runner: Any = importlib.import_module("django.test.runner").DiscoverRunner(verbosity=0)


class Billing(TestCase):  # type: ignore[misc]
    """What a user would write."""

    databases = ("default",)

    def test_a_tick_runs_its_task_when_its_commit_comes(self) -> None:
        declared = scheduling.declare(
            tasks.guarded.using(backend="immediate"), "nightly", ((), {}), {"cron": "0 2 * * *"}
        )

        with self.captureOnCommitCallbacks(execute=True):
            executions.ledger().issue("nightly", (), declared.wish, execution_id="nightly@once")
            assert Mark.objects.count() == 0

        assert Mark.objects.count() == 1
        assert TaskExecution.objects.get().status == "completed"

    def test_b_nothing_of_another_test_is_left(self) -> None:
        assert not TaskExecution.objects.exists()
        assert not Mark.objects.exists()


runner.setup_test_environment()
old = runner.setup_databases()
result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Billing))
runner.teardown_databases(old)
print(json.dumps({"ran": result.testsRun, "fine": result.wasSuccessful()}))
