"""`duly_worker`, `duly_status`, `duly_check`, and what `check` says."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.django.conftest import empty
from tests.django.project.shop import tasks
from tests.django.site import OURS, ROOT, Site, call, new_database, postgres_database
from tests.django.test_transactions import settings
from tests.servers import postgres_url

from duly.django import compat, engine

PRELUDE = "from tests.django.project.shop.tasks import hold\n"


def wait_until(is_so: Callable[[], bool], patience: float = 60) -> None:
    """Look again and again at what another process does."""
    until = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


def said(command: str, *words: str) -> str:
    """What a command prints in this process."""
    output = io.StringIO()
    call(command, *words, stdout=output)
    return output.getvalue()


def sqlite(folder: Path) -> dict[str, Any] | None:
    return None


def postgres(folder: Path) -> dict[str, Any]:
    """A database of its own, so that nobody else's worker is there."""
    name = new_database("kill")
    return {"default": {**postgres_database(postgres_url()), "NAME": name}}


def marks(site: Site) -> int:
    """How many effects there are, by a look at the database."""
    count = "select count(*) from shop_mark"
    if site.databases is None:
        with closing(sqlite3.connect(site.folder / "default.sqlite3")) as connection:
            return int(connection.execute(count).fetchone()[0])
    words = site.databases["default"]
    with psycopg.connect(postgres_url(), dbname=words["NAME"]) as server:
        return int((server.execute(count).fetchone() or (0,))[0])


@pytest.mark.chaos
@pytest.mark.parametrize("databases", [sqlite, pytest.param(postgres, marks=pytest.mark.postgres)])
def test_the_task_of_a_killed_worker_is_run_by_the_next(tmp_path: Path, databases: Any) -> None:
    site = Site(tmp_path, tasks=OURS, databases=databases(tmp_path), duly={"lease": "2s"})
    site.manage("migrate", "-v", "0")
    note = tmp_path / "running"
    result_id = site.shell(PRELUDE + f"print(hold.enqueue({str(note)!r}).id)").strip()

    with site.started("duly_worker") as first:
        wait_until(lambda: note.exists() and bool(note.read_text()))
        os.kill(first.pid, signal.SIGKILL)

    site.duly = {"lease": "30s"}  # what the next one holds is not lost
    with site.started("duly_worker") as second:
        wait_until(lambda: marks(site) == 1)
        second.send_signal(signal.SIGTERM)
        printed, _ = second.communicate(timeout=60)

    assert int(note.read_text()) == first.pid
    told = site.shell(PRELUDE + f"r = hold.get_result({result_id!r}); print(r.status, r.attempts, r.errors)")
    assert told.startswith("SUCCESSFUL 2 [TaskError(exception_class_path='duly.errors.LeaseLost'")
    assert second.returncode == 0, printed
    assert "has ended" in printed


@pytest.mark.slow
def test_a_worker_starts_afresh_when_the_code_changes(tmp_path: Path) -> None:
    watched = tmp_path / "watched.py"
    watched.write_text("")
    environment = {"DULY_SITE_IMPORT": "watched", "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    site = Site(tmp_path, tasks=OURS, environment=environment)
    site.manage("migrate", "-v", "0")
    lines: list[str] = []
    is_over = threading.Event()

    def change() -> None:
        """Again and again: the reloader looks once a second, and must have looked before."""
        while not is_over.wait(1.5):
            later = watched.stat().st_mtime + 5
            os.utime(watched, (later, later))

    changing = threading.Thread(target=change)
    with site.started("duly_worker", "--reload", "--no-color") as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            lines.append(line)
            if "Ctrl-C stops" in line:
                if changing.ident is not None:
                    break
                changing.start()
    is_over.set()
    changing.join()

    assert "has ended" in "".join(lines)


def test_the_worker_answers_probes_at_the_port_it_is_told(
    default: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_METRICS_PORT", "0")

    with caplog.at_level("INFO", logger="duly.metrics"):
        said("duly_worker", "--burst")

    (line,) = (record.getMessage() for record in caplog.records if record.name == "duly.metrics")
    assert line.startswith("metrics on http://127.0.0.1:")


def test_the_worker_serves_the_queues_it_is_told(default: str) -> None:
    tasks.worded.enqueue("io")
    other = tasks.add.enqueue(1, 2)

    printed = said("duly_worker", "--burst", "-q", "io")

    assert "queues io" in printed
    assert "done tests.django.project.shop.tasks.worded" in printed
    assert engine().jobs.get(other.id).state == "waiting"  # of this very job: schedules may have ticked, too


def test_the_status_shows_queues_and_states(default: str) -> None:
    tasks.add.enqueue(1, 2)
    tasks.worded.enqueue()

    printed = said("duly_status", "--backend", "default")

    assert "queue default: 1 waiting" in printed
    assert "queue io: 1 waiting" in printed


def test_the_check_tells_of_work_that_nobody_does(default: str) -> None:
    tasks.add.enqueue(1, 2)
    output = io.StringIO()

    with pytest.raises(Exception, match="Something is wrong"):
        call("duly_check", stdout=output)

    assert "jobs wait and nobody works" in output.getvalue()
    assert "→ Start manage.py duly_worker." in output.getvalue()


def test_the_check_is_content_where_all_is_well(default: str) -> None:
    for alias in {"other", "postgres"} & {*compat.settings.TASKS}:  # that of PostgreSQL is added at need
        empty(alias)

    told = said("duly_check")

    assert "FAIL" not in told, told


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"TASKS": {"OPTIONS": {"databse": "other"}}}, "duly.E002", "databse"),
        ({"TASKS": {"OPTIONS": {"database": "nowhere"}}}, "duly.E003", "nowhere"),
        ({"TASKS": {"OPTIONS": {"lease": "soon"}}}, "duly.E003", "soon"),
        ({"TASKS": {"OPTIONS": {"enqueue_on_commit": "nowhere"}}}, "duly.E004", "nowhere"),
        ({"DULY": {"colour": "blue"}}, "duly.E002", "colour"),
    ],
)
def test_settings_that_cannot_be_are_found_by_check(changes: dict[str, Any], code: str, text: str) -> None:
    if "TASKS" in changes:
        changes = {"TASKS": {"default": {"BACKEND": "duly.django.DulyBackend", **changes["TASKS"]}}}

    with settings(**changes):
        messages = compat.checks.run_checks()

    found = [message for message in messages if message.id == code]
    assert len(found) == 1
    assert text in found[0].msg


def test_tables_of_a_namespace_that_came_later_are_found_missing_and_made(default: str) -> None:
    later = {"default": {"BACKEND": "duly.django.DulyBackend", "OPTIONS": {"namespace": "later"}}}

    with settings(TASKS=later):
        messages = compat.checks.run_checks(tags=["database"], databases=["default"])
        said("duly_check")
        after = compat.checks.run_checks(tags=["database"], databases=["default"])
        engine().close()

    assert [message.id for message in messages if message.id.startswith("duly.")] == ["duly.W001"]
    assert [message.id for message in after if message.id.startswith("duly.")] == []


def test_options_on_a_backend_that_does_not_know_them_are_a_warning() -> None:
    stock = f"{compat.PACKAGE}.backends.dummy.DummyBackend"

    with settings(TASKS={"default": {"BACKEND": stock, "QUEUES": []}}):
        messages = compat.checks.run_checks(tags=["duly"])

    found = {message.msg.partition(" ")[0] for message in messages if message.id == "duly.W002"}
    assert "tests.django.project.shop.tasks.stubborn" in found
    assert "tests.django.project.shop.tasks.add" not in found


@pytest.mark.slow
def test_a_worker_learns_of_tasks_in_modules_it_has_not_imported(tmp_path: Path) -> None:
    site = Site(tmp_path, tasks=OURS)
    site.manage("migrate", "-v", "0")

    with site.started("duly_worker") as worker:
        assert worker.stdout is not None
        lines = iter(worker.stdout)
        next(line for line in lines if "Ctrl-C stops" in line)
        site.shell("from tests.django.project.shop.corner import hide; hide.enqueue()")
        found = next(line for line in lines if "corner" in line)

    assert "done tests.django.project.shop.corner.hide" in found


def test_importing_the_application_and_its_tasks_connects_to_nothing(tmp_path: Path) -> None:
    unreachable = {
        "default": {"ENGINE": "django.db.backends.postgresql", "NAME": "x", "HOST": str(tmp_path / "nowhere")}
    }
    site = Site(tmp_path, databases=unreachable)
    code = (
        "import django; django.setup(); import tests.django.project.shop.tasks, duly.django; "
        "from django.db import connections; print([c.connection for c in connections.all()])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=site.variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == "[None]", done.stderr
