"""Exactly-once bodies in child processes: the child commits by itself, and a dead one has rolled back."""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.stories import charges, errands
from tests.stories.arrange import ended, events, in_state, run_all, until, working
from tests.stories.conftest import OPTIONS, Place
from tests.stories.effects import Effects

from duly import Duly


@pytest.fixture
def lease() -> str:
    return "30s"


@pytest.fixture
def effects(
    exact_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease: str
) -> Generator[Effects, None, None]:
    """The table, and the application of charges.py on its store, here and in every child."""
    for name, value in {**OPTIONS, "url": exact_place.url, "lease": lease}.items():
        monkeypatch.setenv(f"DULY_{name.upper()}", str(value))
    monkeypatch.setenv("STORY_FOLDER", str(tmp_path))
    monkeypatch.setenv("STORY_TABLE", f"charges_{exact_place.namespace}")
    importlib.reload(charges)
    charges.app.open()
    table = Effects(exact_place.url, os.environ["STORY_TABLE"])
    yield table
    charges.app.close()
    table.drop()


@pytest.fixture
def app(effects: Effects) -> Duly:
    return charges.app


def test_a_child_commits_by_itself(app: Duly, effects: Effects) -> None:
    jobs = [charges.charge_in_child.enqueue(amount) for amount in range(3)]
    run_all(app)

    assert effects.all() == [0, 1, 2]
    assert all(job.result() != os.getpid() for job in jobs)
    assert events(app.jobs.get(jobs[0])) == ["done"]


def test_an_async_body_in_a_child_commits_by_itself(app: Duly, effects: Effects) -> None:
    job = charges.charge_on_childs_loop.enqueue(7)
    run_all(app)

    assert (effects.all(), job.state()) == ([7], "done")


def test_a_body_that_raises_in_a_child_leaves_nothing(app: Duly, effects: Effects) -> None:
    job = charges.fail_in_child.enqueue(7)
    run_all(app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "no credit" in (app.jobs.get(job).error or "")


def test_a_child_that_died_before_its_commit_has_rolled_back(app: Duly, effects: Effects) -> None:
    job = charges.die_once.enqueue(7)
    with working(app):
        ended(app, job)

    assert (effects.all(), job.state()) == ([7], "done")
    assert events(app.jobs.get(job)) == ["crash", "done"]


def test_a_child_killed_at_its_hard_limit_has_rolled_back(app: Duly, effects: Effects) -> None:
    job = charges.stuck_at_first.enqueue(7)
    with working(app):
        ended(app, job)

    assert (effects.all(), job.state()) == ([7], "done")
    # A busy machine may need more than the limit for a second child.
    assert set(events(app.jobs.get(job))) == {"retry", "done"}


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_child_that_dies_around_its_commit_is_looked_up(
    app: Duly, effects: Effects, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("DULY_FAILPOINTS", f"{point}=exit nth=1")  # each child counts for itself
    heard: list[str] = []
    app.events.subscribe(lambda event: heard.append(event.kind))
    job = charges.charge_in_child.enqueue(7)

    with working(app):
        until(lambda: bool(heard))
        monkeypatch.delenv("DULY_FAILPOINTS")
        ended(app, job)

    assert (effects.all(), job.state()) == ([7], "done")
    assert heard[-1] == "done"
    # A second child may have been on its way before the point was disarmed.
    assert set(heard[:-1]) == ({"crash"} if point == "before_commit" else set())


def test_a_soft_limit_that_passes_during_a_childs_commit_changes_nothing(
    app: Duly, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_FAILPOINTS", "before_commit=sleep for=3.5")
    task = charges.charge_within if effects.is_sqlite else charges.charge_within_on_loop
    job = task.enqueue(7)

    run_all(app)

    assert (effects.all(), job.state()) == ([7], "done")


def test_a_cancelled_child_rolls_back(app: Duly, effects: Effects) -> None:
    job = charges.wait_in_child.enqueue(7, "never")
    with working(app):
        if effects.is_sqlite:  # nobody can write while it holds the file, not even a wish
            pytest.skip("SQLite has one writer")
        until(lambda: bool(errands.lines("started")))
        job.cancel()
        ended(app, job)

    assert (effects.all(), job.state()) == ([], "cancelled")


@pytest.mark.parametrize("lease", ["3s"])
def test_a_transaction_that_idles_for_a_whole_lease_is_ended_and_tried_again(
    app: Duly, effects: Effects
) -> None:
    if effects.is_sqlite:
        pytest.skip("SQLite's transactions may idle: nobody can take the job over meanwhile")
    job = charges.idle_for.enqueue(4.0)
    with working(app):
        in_state(app, job, "done")

    assert effects.all() == [2]
    assert events(app.jobs.get(job)) == ["crash", "done"]
