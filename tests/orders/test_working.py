"""The success metrics, with real workers: on Duly in SQLite and in PostgreSQL, and on Celery."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.orders.project import Console, Project, kill_group, until

pytestmark = pytest.mark.chaos


def save(console: Console, number: str) -> int:
    pk: int = console.ask("answer = lease(number).pk", number=number)
    return pk


def found(console: Console, pk: int) -> dict[str, Any]:
    row: dict[str, Any] = console.ask("answer = seen(pk)", pk=pk)
    return row


@pytest.mark.parametrize("project", ["sqlite", "postgres", "celery", "redis"], indirect=True)
@pytest.mark.usefixtures("worker")
def test_a_saved_lease_is_completed_by_the_tasks(console: Console) -> None:
    pk = save(console, "L100")

    until(lambda: found(console, pk)["runsheet"])
    row = found(console, pk)
    assert row["directory"] == "/leases/L100"
    assert row["previous_reports"] == ["L100-2024", "L100-2025"]


@pytest.mark.parametrize(
    ("name", "field"),
    [("lease_directory_search_task", "directory"), ("previous_report_detection_task", "previous_reports")],
)
@pytest.mark.usefixtures("worker")
def test_each_of_the_other_two_tasks_does_its_part(console: Console, name: str, field: str) -> None:
    pk = console.ask("answer = Lease.objects.create(number='L200').pk")
    console.ask("getattr(tasks, name).enqueue(pk, user('ann').pk)", name=name, pk=pk)

    assert until(lambda: found(console, pk)[field])


@pytest.mark.usefixtures("worker")
def test_metric_transient_faults_resolve_by_retries(console: Console, cloud: Any, project: Project) -> None:
    number = f"L300 {project.folder.name}+503x2"
    pk = save(console, number)

    until(lambda: found(console, pk)["directory"])
    assert cloud.times(number) == 3


@pytest.mark.usefixtures("worker")
def test_metric_p6_an_unexpected_error_fails_at_once(console: Console, cloud: Any, project: Project) -> None:
    number = f"L400 {project.folder.name}+404"
    pk = save(console, number)

    until(lambda: f"lease_id={pk}" in project.log and "is not tried again" in project.log)
    after = save(console, "L401")
    until(lambda: found(console, after)["directory"])
    assert cloud.times(number) == 1


@pytest.mark.usefixtures("worker")
def test_4_2_p7_every_line_of_the_worker_about_a_task_carries_lease_and_user(
    console: Console, project: Project
) -> None:
    pk = save(console, "L500")
    user = console.ask("answer = user('ann').pk")

    until(lambda: found(console, pk)["runsheet"])
    until(lambda: any("done" in line and f"lease_id={pk} " in line for line in project.log.splitlines()))
    lines = [line for line in project.log.splitlines() if " orders.tasks " in line]
    assert [line for line in lines if f"lease_id={pk} user_id={user} " in line]
    assert [line for line in lines if not re.search(r"lease_id=\d+ user_id=\d+ ", line)] == []


@pytest.mark.usefixtures("worker")
def test_metric_p3_nothing_is_stored_of_results(console: Console, project: Project) -> None:
    pk = save(console, "L600")
    until(lambda: found(console, pk)["runsheet"])

    if project.is_celery:
        left = console.ask(
            "import redis\n"
            "client = redis.Redis.from_url(settings.CELERY_BROKER_URL.replace('redis+socket', 'unix'))\n"
            "answer = [key.decode() for key in client.keys('celery-task-meta-*')]"
        )
        assert left == []
    else:
        results = console.ask(
            "from duly.django import engine\n"
            "answer = [job.result for job in engine().jobs.list(key=f'lease:{pk}')]",
            pk=pk,
        )
        assert results == [None]


def test_metric_p1_work_is_not_lost_when_a_worker_is_killed_in_mid_task(
    worker: Project, console: Console, cloud: Any
) -> None:
    number = f"L700 {worker.folder.name}"
    cloud.gates[number] = threading.Event()
    pk = save(console, number)
    until(lambda: cloud.times(number) == 1)

    strike(worker)
    cloud.gates[number].set()

    until(lambda: found(console, pk)["runsheet"], 60)
    assert cloud.times(number) >= 2


@pytest.mark.redis
@pytest.mark.parametrize("project", ["redis"], indirect=True)
def test_metric_p1_nor_is_it_with_duly_on_redis(worker: Project, console: Console, cloud: Any) -> None:
    number = "L900"
    cloud.gates[number] = threading.Event()
    pk = save(console, number)
    until(lambda: cloud.times(number) == 1)

    strike(worker)
    cloud.gates[number].set()

    until(lambda: found(console, pk)["runsheet"], 60)


def strike(project: Project) -> None:
    """On Duly the whole worker, and another takes over. On Celery the task's process, as the kernel does.

    A Celery worker that dies as a whole leaves its messages to the visibility timeout, an hour by default.
    """
    running = project.started[-1]
    if not project.is_celery:
        kill_group(running)
        project.serve()
        return
    for pid in children(running):
        os.kill(pid, signal.SIGKILL)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_p2_a_cloud_that_hangs_is_cut_off_by_the_soft_limit_and_tried_again(
    project: Project, cloud: Any
) -> None:
    number = f"L800 {project.folder.name}"
    cloud.gates[number] = threading.Event()
    limits = {"ORDERS_TASK_SOFT_TIME_LIMIT": "2", "ORDERS_TASK_TIME_LIMIT": "20"}
    project.serve(**limits)
    console = project.console(**limits)
    pk = save(console, number)

    until(lambda: cloud.times(number) >= 2, 60)
    cloud.gates[number].set()

    until(lambda: found(console, pk)["runsheet"], 60)
    console.close()
    assert "takes too long" in project.log
