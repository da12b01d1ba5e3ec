"""What the PRD asks of declarations and of the cloud's errors: no worker needed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orders.project import EXAMPLE, Console, Project

TASKS = ["lease_directory_search_task", "previous_report_detection_task", "full_runsheet_discovery_task"]


@pytest.fixture(scope="module")
def duly(folder: Path, cloud: Any) -> Iterator[Console]:
    """The project on Duly, without a worker."""
    (folder / "declared").mkdir()
    project = Project(folder / "declared", cloud)
    project.migrate()
    console = project.console(ORDERS_CLOUD_TIMEOUT="0.3")
    yield console
    console.close()


@pytest.fixture(scope="module")
def celery(folder: Path, cloud: Any) -> Iterator[Console]:
    """The same on Celery; its broker is never asked."""
    console = Project(folder, cloud, queue="celery").console(ORDERS_BROKER="redis://127.0.0.1:1/0")
    yield console
    console.close()


def test_the_migrations_have_everything_that_the_models_say(duly: Console) -> None:
    duly.ask(
        "from django.core.management import call_command\n"
        "call_command('makemigrations', check_changes=True, dry_run=True, verbosity=0)"  # else: SystemExit
    )


# --- 1: delivery and limits -------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_1_1_p1_p2_p3_each_task_on_duly_runs_until_done_within_limits_and_keeps_no_result(
    duly: Console, name: str
) -> None:
    found = duly.ask(
        "task = getattr(tasks, name)\n"
        "answer = [task.delivery, task.soft_limit, task.hard_limit, task.keep_result]",
        name=name,
    )

    assert found == ["at_least_once", 90, 120, None]


@pytest.mark.parametrize("name", TASKS)
def test_1_1_p1_p2_p3_each_task_on_celery_has_the_options_that_the_requirement_names(
    celery: Console, name: str
) -> None:
    found = celery.ask(
        "from orders_site.celery import app\n"
        "carrier = app.tasks[f'orders.tasks.{name}']\n"
        "answer = [carrier.acks_late, carrier.reject_on_worker_lost, carrier.soft_time_limit,\n"
        "          carrier.time_limit, carrier.ignore_result]",
        name=name,
    )

    assert found == [True, True, 90, 120, True]


def test_p10_three_variables_override_limits_and_window(folder: Path, cloud: Any) -> None:
    console = Project(folder, cloud).console(
        ORDERS_TASK_SOFT_TIME_LIMIT="5", ORDERS_TASK_TIME_LIMIT="7", ORDERS_TASK_DEDUP_TTL="3"
    )

    found = console.ask(
        f"found = [getattr(tasks, name) for name in {TASKS}]\n"
        "answer = [[one.soft_limit, one.hard_limit] for one in found] + [settings.ORDERS_TASK_DEDUP_TTL]"
    )

    console.close()
    assert found == [[5, 7]] * 3 + [3]


# --- 2: retries -------------------------------------------------------------------------------------


def test_2_1_p5_retries_are_configured_in_the_decorators_and_nowhere_else(celery: Console) -> None:
    settings = (EXAMPLE / "orders_site" / "settings.py").read_text()
    annotations = celery.ask("from orders_site.celery import app; answer = app.conf.task_annotations")

    assert annotations is None
    assert not re.search(r"retr|backoff", settings.replace("CONNECTION_RETRY_ON_STARTUP", ""), re.IGNORECASE)


@pytest.mark.parametrize("name", TASKS)
def test_2_2_p4_only_cloud_service_errors_are_retried_five_tries_with_a_growing_capped_jittered_wait(
    duly: Console, name: str
) -> None:
    found = duly.ask(
        "from duly.retry import delay_after\n"
        "retry = getattr(tasks, name).retry\n"
        "waits = [delay_after(retry, failures).total_seconds() for failures in (1, 2, 3, 4, 20)]\n"
        "answer = [retry.on.__name__, retry.attempts, retry.jitter, waits]",
        name=name,
    )

    assert found == ["CloudServiceError", 5, 1.0, [1, 2, 4, 8, 600]]


# --- 3: which faults are the cloud's ----------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504])
def test_3_2_transient_and_authentication_faults_become_a_cloud_service_error(
    duly: Console, status: int
) -> None:
    assert raised(duly, f"M+{status}") == "orders.cloud.CloudServiceError"


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_3_1_p6_an_answer_that_no_later_call_would_change_is_left_as_it_is(
    duly: Console, status: int
) -> None:
    assert raised(duly, f"M+{status}") == "urllib.error.HTTPError"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", "json.decoder.JSONDecodeError"),
        (b"{}", "builtins.KeyError"),
        (b"[]", "builtins.TypeError"),
    ],
)
def test_3_1_p6_an_answer_that_makes_no_sense_is_a_bug_and_stays_one(
    duly: Console, cloud: Any, body: bytes, kind: str
) -> None:
    number = f"nonsense {kind}"
    cloud.bodies[number] = body

    assert raised(duly, number) == kind


def test_3_2_a_cloud_that_answers_too_late_is_a_fault_of_the_network(duly: Console, cloud: Any) -> None:
    cloud.gates["late"] = threading.Event()

    assert raised(duly, "late") == "orders.cloud.CloudServiceError"
    cloud.gates["late"].set()


def test_3_2_a_cloud_that_is_not_there_is_a_fault_of_the_network(duly: Console) -> None:
    found = duly.ask(
        "from django.test import override_settings\n"
        "with override_settings(ORDERS_CLOUD_URL='http://127.0.0.1:1'):\n"
        "    try: cloud.find_reports('L1', 7)\n"
        "    except cloud.CloudServiceError as error: answer = type(error).__name__"
    )

    assert found == "CloudServiceError"


def raised(console: Console, number: str) -> str:
    kind: str = console.ask(
        "try: cloud.find_directory(number, 7)\n"
        "except Exception as error: answer = f'{type(error).__module__}.{type(error).__name__}'",
        number=number,
    )
    return kind


# --- 4: logs ----------------------------------------------------------------------------------------


def test_4_1_tasks_log_through_a_task_logger_of_their_module(duly: Console) -> None:
    assert duly.ask("answer = [type(tasks.log).__name__, tasks.log.logger.name]") == [
        "TaskLogger",
        "orders.tasks",
    ]


@pytest.mark.parametrize(("number", "last"), [("L1", "done"), ("L1+503", "passes"), ("L1+404", "not tried")])
def test_4_2_p7_every_line_of_a_task_carries_the_lease_and_the_user(
    duly: Console, number: str, last: str
) -> None:
    found = duly.ask(
        "one = lease(number)\n"
        "before = len(lines)\n"
        "try: tasks.full_runsheet_discovery_task.call(one.pk, one.requested_by_id)\n"
        "except Exception: pass\n"
        "answer = [one.pk, one.requested_by_id, lines[before:]]",
        number=number,
    )
    pk, user, lines = found

    assert len(lines) >= 2
    assert last in lines[-1]
    assert all(f"lease_id={pk} user_id={user} " in line for line in lines)


def test_4_2_a_task_says_nothing_past_its_logger() -> None:
    source = (EXAMPLE / "orders" / "tasks.py").read_text() + (EXAMPLE / "orders" / "cloud.py").read_text()

    assert "print(" not in source
    assert "logging.getLogger" not in source
