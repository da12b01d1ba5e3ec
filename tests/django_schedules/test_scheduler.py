"""Schedulers as processes: several at once, killed, started by the first request and by nothing else."""

from __future__ import annotations

import importlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.django.site import ROOT, Site
from tests.django_schedules.clockwork import Clockwork

pytestmark = pytest.mark.chaos

SETTINGS = "tests.django_schedules.settings"
FATAL = "after_body=exit task=duly.django.tick"
MODULE = "tests.django_schedules.programs.seconds"


def until(is_so: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The project with a task that runs every second, on the backend that runs tasks at once."""
    made = Site(tmp_path, environment={"DJANGO_SETTINGS_MODULE": SETTINGS, "SITE_TASKS": MODULE})
    made.manage("migrate", "-v", "0")
    return made


def start(site: Site) -> subprocess.Popen[bytes]:
    """A scheduler that goes on."""
    command = [sys.executable, "-m", "tests.django.project.manage", "duly_scheduler"]
    return subprocess.Popen(command, cwd=ROOT, env=site.variables)


def executions(site: Site) -> list[list[str]]:
    """Id and status of each, oldest first, read beside Django."""
    with closing(sqlite3.connect(site.folder / "default.sqlite3", timeout=60)) as connection:
        rows = connection.execute("select id, status from duly_django_execution order by created_at, id")
        return [list(row) for row in rows]


def marks(site: Site) -> list[str]:
    with closing(sqlite3.connect(site.folder / "default.sqlite3", timeout=60)) as connection:
        return [text for (text,) in connection.execute("select text from shop_mark order by text")]


def test_two_schedulers_one_of_them_killed_make_each_tick_once(site: Site) -> None:
    first, second = start(site), start(site)
    try:
        until(lambda: len(executions(site)) >= 2)
        first.kill()
        seen = len(executions(site))
        until(lambda: len(executions(site)) >= seen + 3)
    finally:
        first.kill()
        second.send_signal(signal.SIGTERM)
        code = second.wait(60)
        first.wait(60)
    site.manage("duly_scheduler", "--burst")

    completed = sorted(name for name, status in executions(site) if status == "completed")
    assert code == 0
    assert len(completed) >= 4
    assert marks(site) == completed  # one effect each, and none without its execution


def test_a_tick_whose_scheduler_died_in_it_is_made_up_for_in_a_child(site: Site) -> None:
    fatal = Site(site.folder, environment={**site.environment, "DULY_FAILPOINTS": FATAL})
    dying = start(fatal)
    dying.wait(60)
    after_death = executions(site)

    successor = start(site)
    try:
        until(lambda: any(claimed_again(site)))
        until(lambda: len(executions(site)) >= 2)
    finally:
        successor.send_signal(signal.SIGTERM)
        successor.wait(60)

    assert after_death == []
    assert set(claimed_again(site)) <= {name for name, _ in executions(site)}


def claimed_again(site: Site) -> list[str]:
    """The keys of ticks that were done at their second try."""
    with closing(sqlite3.connect(site.folder / "default.sqlite3", timeout=60)) as connection:
        rows = connection.execute(
            "select key from duly_job where task = 'duly.django.tick' and state = 'done' and epoch > 1"
        )
        return [key for (key,) in rows]


def test_11_a_scheduler_starts_with_the_first_request_and_in_no_command(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        duly={"autostart": True},
        environment={"DJANGO_SETTINGS_MODULE": SETTINGS, "SITE_TASKS": MODULE},
    )

    site.manage("migrate", "-v", "0")
    site.shell("import time; time.sleep(0.2)")
    site.manage("check")
    after_commands = executions(site)
    done = subprocess.run(
        [sys.executable, "-m", "tests.django_schedules.programs.server"],
        cwd=ROOT, env=site.variables, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert after_commands == []
    assert told["before"] == []
    assert told["in parent"] == ["duly-scheduler"]
    assert told["in child"] == [["duly-scheduler"], []]  # after a request of its own, and before
    assert told["in tests"] == 0
    assert executions(site)


def test_a_scheduler_without_tables_says_what_to_do(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    from duly.django import scheduler

    connection: Any = importlib.import_module("django.db").connection
    with connection.cursor() as cursor:
        cursor.execute("alter table duly_django_schedule rename to hidden")
    try:
        scheduler.check_names()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("alter table hidden rename to duly_django_schedule")

    assert "manage.py migrate" in caplog.text
