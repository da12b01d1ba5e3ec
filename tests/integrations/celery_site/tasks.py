"""Tasks of Django's interface; nothing here knows of Celery."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from duly import Retry
from duly.django import exactly_once, task

connection: Any = importlib.import_module("django.db").connection


def note(text: str) -> None:
    """One line in a file of the test's."""
    with (Path(os.environ["SITE_FOLDER"]) / "noted.txt").open("a") as file:
        file.write(f"{text}\n")


@task(retry=Retry(on=OSError, attempts=2, first="10ms"), takes_context=True, keep_result=None)
def count(context: Any, name: str) -> None:
    note(f"{name} attempt {context.attempt} of {context.task_result.id}")
    if context.attempt == 1:
        raise OSError("once")


@task(keep_result=None, queue_name="io")
async def greet(name: str) -> None:
    note(f"hello {name}")


@task(keep_result=None)
@exactly_once
def bill(what: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("insert into bills (what) values (%s)", [what])
