"""Duly as one of the systems: its ordinary calls, and its ordinary worker in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import duly_app, place
from benchmarks.duly_app import app

EFFECTS = "create table if not exists effect (number integer not null)"


class Peer:
    """Plain calls, as in a web process."""

    packages = ("duly",)
    settings = "every setting as it is by default"

    def __init__(self) -> None:
        self.task: Any = getattr(duly_app, os.environ.get(place.TASK, "noop"))

    def setup(self) -> None:
        app.open()
        app.close()
        if self.task is duly_app.effect or not place.url().startswith("sqlite"):
            make_effects()  # in a file only where needed: one shared with an application is treated with care

    def open(self) -> None:
        app.open()

    def close(self) -> None:
        """Left open: other threads of this process may still enqueue."""

    def enqueue(self, number: int) -> None:
        self.task.enqueue(number)

    def bulk(self, numbers: Sequence[int]) -> None:
        self.task.enqueue_many([((number,), {}) for number in numbers])

    def schedule(self, numbers: Sequence[int], due: float) -> None:
        later = self.task.using(run_after=datetime.fromtimestamp(due, UTC))
        later.enqueue_many([((number,), {}) for number in numbers])

    def worker_argv(self) -> list[str]:
        return [str(Path(sys.executable).with_name("duly")), "worker", "benchmarks.duly_app:app"]


def make_effects() -> None:
    """The table that exactly-once tasks write to, in the database of the jobs."""
    if place.url().startswith("sqlite"):
        import sqlite3

        with sqlite3.connect(place.path()) as file:
            file.execute(EFFECTS)
        file.close()
    elif place.url().startswith("postgresql"):
        import psycopg

        with psycopg.connect(place.url()) as connection:
            connection.execute(EFFECTS)
