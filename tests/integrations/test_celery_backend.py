"""Django's tasks on Celery by one line of the settings: a real worker, a real Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orders.project import Console
from tests.servers_redis import private_server
from tests.stories.arrange import until

ROOT = Path(__file__).parents[2]
SITE = "tests.integrations.celery_site"
PRELUDE = f"""
from django.core.management import call_command
from django.db import connection, transaction
from duly.django.compat import InvalidTask, task_backends
from duly.django import task
from {SITE} import tasks
def noted():
    file = tasks.Path(tasks.os.environ["SITE_FOLDER"]) / "noted.txt"
    return file.read_text().splitlines() if file.exists() else []
def query(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else None
def refused(**words):
    try:
        task(**words)(len_of)
    except InvalidTask as error:
        return str(error)
def len_of(text): ...
len_of.__module__, len_of.__qualname__ = tasks.__name__, "len_of"
"""

pytestmark = [pytest.mark.redis, pytest.mark.chaos]


@pytest.fixture(scope="module")
def site() -> Iterator[Console]:
    """The project in a process to ask, and a Celery worker that serves it."""
    with tempfile.TemporaryDirectory(prefix="duly-site-") as folder, private_server(Path(folder)) as server:
        variables = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"{SITE}.settings",
            "SITE_FOLDER": folder,
            "SITE_BROKER": f"redis+socket://{server.socket}",
        }
        console = Console(variables, PRELUDE)
        console.ask("call_command('migrate', verbosity=0)\nquery('create table bills (what text)')")
        worker = start_worker(variables, Path(folder))
        yield console
        console.close()
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)


def start_worker(variables: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    words = ["-A", f"{SITE}.celery", "worker", "-c", "2", "-Q", "celery,io", "--loglevel", "INFO"]
    with (folder / "worker.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", *words], cwd=ROOT, env=variables, stdout=log, stderr=log
        )


def noted(site: Console, word: str) -> list[str]:
    return [line for line in site.ask("answer = noted()") if word in line]


def test_a_task_of_djangos_runs_on_celery_with_its_context_and_its_retries(site: Console) -> None:
    result = site.ask("result = tasks.count.enqueue('ann')\nanswer = [result.id, result.status]")

    until(lambda: len(noted(site, "ann")) == 2)
    assert result[1] == "READY"
    assert noted(site, "ann") == [f"ann attempt {number} of {result[0]}" for number in (1, 2)]


def test_an_async_task_runs_in_the_queue_that_it_names(site: Console) -> None:
    site.ask("tasks.greet.enqueue('bob')")

    until(lambda: noted(site, "bob"))


def test_enqueueing_tells_djangos_signal(site: Console) -> None:
    sent = site.ask(
        "from duly.django.compat import signals\n"
        "told = []\n"
        "hear = lambda sender, task_result, **_: told.append([sender.__name__, task_result.args])\n"
        "signals().task_enqueued.connect(hear)\n"
        "tasks.greet.enqueue('cecil')\n"
        "signals().task_enqueued.disconnect(hear)\n"
        "answer = told"
    )

    assert sent == [["CeleryBackend", ["cecil"]]]


def test_an_execution_that_is_delivered_three_times_has_one_effect(site: Console) -> None:
    execution = site.ask(
        "from duly.django.executions import ID, ledger, wish\n"
        "wanted = wish(tasks.bill, 'by hand', ['rent'], {})\n"
        "execution = ledger().issue(wanted['task'], (), wanted).id\n"
        "for _ in range(2): tasks.bill.enqueue('rent', **{ID: execution})\n"
        "answer = execution"
    )

    until(lambda: site.ask("answer = ledger().get(execution).state") == "completed")
    after = site.ask("answer = tasks.count.enqueue('after')\nanswer = answer.id")
    until(lambda: len(noted(site, after)) == 2)
    assert site.ask("answer = query('select what from bills')") == [["rent"]]
    assert execution


def test_an_execution_that_is_rolled_back_is_not_handed_over(site: Console) -> None:
    found = site.ask(
        "from duly.django.executions import ledger, wish\n"
        "wanted = wish(tasks.bill, 'by hand', ['nothing'], {})\n"
        "try:\n"
        "    with transaction.atomic():\n"
        "        execution = ledger().issue(wanted['task'], (), wanted).id\n"
        "        raise RuntimeError\n"
        "except RuntimeError: pass\n"
        "answer = ledger().get(execution)"
    )

    assert found is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"priority": 5}, "priority"),
        ({"rate": "1/s"}, "Celery cannot keep rate"),
        ({"delivery": "exactly_once"}, "by a receipt instead"),
        ({"queue_name": "nowhere"}, "nowhere"),
    ],
)
def test_a_declaration_that_celery_cannot_keep_is_refused_at_import(
    site: Console, words: dict[str, Any], complaint: str
) -> None:
    assert complaint in site.ask("answer = refused(**words)", words=words)


def test_get_result_is_left_to_celery(site: Console) -> None:
    assert not site.ask("answer = task_backends['default'].supports_get_result")


def test_check_names_what_is_missing_and_what_nobody_reads(site: Console) -> None:
    found = site.ask(
        "from duly.integrations.celery import CeleryBackend\n"
        "backend = CeleryBackend('default', {'QUEUES': [], 'OPTIONS': {'brocker': 1}})\n"
        "answer = [error.id for error in backend.check()]"
    )

    assert found == ["duly.E101", "duly.E102"]
