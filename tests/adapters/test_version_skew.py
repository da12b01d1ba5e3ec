"""Old and new code side by side while the schema changes under both.

The old code is this one. The new code is this one too, with two more migrations: one that adds something,
and one that takes it away again and says that it no longer serves the old.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.servers import postgres_url
from tests.stories import errands
from tests.stories.arrange import until
from tests.stories.conftest import PLACES, Place
from tests.stories.processes import ROOT, TARGET, WorkerProcess

from duly import Duly
from duly.errors import SchemaMismatch
from duly.stores.contract import Ask, Lane

NEW: Final = "tests.adapters.skew_programs"
EXPANDING: Final = "0002_addition.sql"
CONTRACTING: Final = "0003_removal.sql"
STEPS: Final = {
    "sqlite": ("create table duly_addition (x text);", "-- oldest code: 3\ndrop table duly_addition;"),
    "postgres": (
        "create table {schema}.addition (x text);",
        "-- oldest code: 3\ndrop table {schema}.addition;",
    ),
}


class Deploy:
    """One store in the middle of a deploy: processes of the old code and of the new."""

    def __init__(self, place: Place, folder: Path, stack: ExitStack) -> None:
        self.place = place
        self.folder = folder
        self._stack = stack
        self.app = Duly(place.url, namespace=place.namespace, poll="50ms")
        stack.callback(self.app.close)

    @property
    def _variables(self) -> dict[str, str]:
        return {
            "DULY_URL": self.place.url,
            "DULY_NAMESPACE": self.place.namespace,
            "DULY_LEASE": "8s",
            "DULY_CONCURRENCY": "1",
            "STORY_FOLDER": str(self.folder),
        }

    def worker(self, name: str, *words: str) -> WorkerProcess:
        worker = WorkerProcess(self.folder / f"{name}.log", *words, **self._variables)
        self._stack.callback(worker.end)
        return worker

    def new_worker(self) -> subprocess.Popen[str]:
        """A worker of the new code."""
        process = self._stack.enter_context(self._start("worker", TARGET))
        self._stack.callback(process.kill)
        return process

    def new(self, *words: str) -> str:
        """A command of the new code."""
        process = self._start(*words)
        printed, _ = process.communicate(timeout=100)
        assert process.returncode == 0, printed
        return printed

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", NEW, str(self.folder / "migrations"), *words],
            cwd=ROOT,
            env=os.environ | self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def enqueue(self, *names: str) -> None:
        with errands.app.standing_in(self.app.store, self.app.clock):
            errands.slow.enqueue_many([((name,), {}) for name in names])

    def let(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture(params=list(STEPS))
def deploy(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Deploy]:
    monkeypatch.setenv("STORY_FOLDER", str(tmp_path))
    (tmp_path / "migrations").mkdir()
    for name, text in zip((EXPANDING, CONTRACTING), STEPS[request.param], strict=True):
        (tmp_path / "migrations" / name).write_text(text)
    place = PLACES[request.param](tmp_path)
    with ExitStack() as stack:
        if request.param == "postgres":
            stack.callback(drop, place.namespace)  # the next test must not find a schema from the future
        yield Deploy(place, tmp_path, stack)


def drop(schema: str) -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"drop schema if exists {schema} cascade".encode())


def pids() -> set[str]:
    """The processes that have started a body."""
    return {line.split()[1] for line in errands.lines("started")}


def finished() -> list[str]:
    return sorted(line.split()[0] for line in errands.lines("finished"))


def is_done(*names: str) -> bool:
    return finished() == sorted(names)


def test_old_and_new_workers_share_the_work_while_the_schema_grows(deploy: Deploy) -> None:
    deploy.enqueue("one")
    old = deploy.worker("old")
    until(lambda: len(pids()) == 1)

    deploy.new_worker()
    deploy.enqueue("two")
    until(lambda: len(pids()) == 2)
    for name in ("one", "two", "three", "four"):
        deploy.let(name)
    deploy.enqueue("three", "four")

    until(lambda: is_done("one", "two", "three", "four"))
    assert "taken over" not in old.log
    assert str(old.pid) in pids()


def test_a_contraction_ends_the_old_worker_after_its_work_and_the_new_goes_on(deploy: Deploy) -> None:
    deploy.enqueue("one")
    old = deploy.worker("old")
    until(lambda: len(pids()) == 1)
    new = deploy.new_worker()
    deploy.enqueue("two")
    until(lambda: len(pids()) == 2)
    deploy.enqueue("three")

    printed = deploy.new("migrate", "--url", deploy.place.url)
    until(lambda: "newer code has taken over" in old.log)
    deploy.let("one")

    assert "applied: 0003_removal" in printed
    assert old.wait(60) == 0
    assert "serves schema level 3 and later" in old.log
    deploy.let("two")
    deploy.let("three")
    until(lambda: is_done("one", "two", "three"))
    assert errands.lines("finished")[-1].split()[1] == str(new.pid)


def test_only_the_new_code_runs_what_is_enqueued_before_a_contraction(deploy: Deploy) -> None:
    deploy.enqueue("one")
    deploy.let("one")
    deploy.new("migrate", "--url", deploy.place.url)

    lanes = {errands.slow.name: Lane(errands.slow.name)}
    store = deploy.app.store
    claimed = store.run(store.claim(Ask("old", lanes, deploy.app.settings.lease, limit=1, free=1)))
    assert claimed.claims == []

    deploy.new("worker", TARGET, "--burst")
    assert is_done("one")


def test_a_producer_of_old_code_is_told_to_upgrade(deploy: Deploy) -> None:
    deploy.enqueue("one")
    deploy.new("migrate", "--url", deploy.place.url)

    with pytest.raises(SchemaMismatch, match="serves schema level 3 and later, this version of Duly is at 1"):
        deploy.enqueue("two")


def test_a_process_of_old_code_that_starts_too_late_ends_with_a_clear_line(deploy: Deploy) -> None:
    deploy.app.store.open()
    deploy.new("migrate", "--url", deploy.place.url)

    late = deploy.worker("late")

    assert late.wait(60) == 0
    assert "newer code has taken over" in late.log


def test_expanding_steps_run_by_themselves_and_contracting_ones_only_on_request(deploy: Deploy) -> None:
    deploy.app.store.open()

    deploy.new("worker", TARGET, "--burst")
    left = deploy.new("migrate", "--url", deploy.place.url)

    assert "0002_addition" not in left
    assert "applied: 0003_removal" in left
