"""run.complete where it could go wrong: the completion stays tied to its effects, or is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from tests.stories.arrange import events, run_all
from tests.stories.effects import Effects

from duly import Duly, Run


@contextmanager
def by_itself(effects: Effects) -> Generator[Any, None, None]:
    """A connection on which every statement commits by itself."""
    if effects.is_sqlite:
        with closing(sqlite3.connect(effects.path, isolation_level=None, timeout=60)) as connection:
            yield connection
    else:
        with psycopg.connect(effects.url, autocommit=True) as connection:
            yield connection


@contextmanager
def transaction(effects: Effects) -> Generator[Any, None, None]:
    with by_itself(effects) as connection:
        connection.execute("begin immediate" if effects.is_sqlite else "begin")
        try:
            yield connection
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")


def error_of(app: Duly, job: Any) -> str:
    return app.jobs.get(job).error or ""


def test_a_completion_that_would_commit_by_itself_is_refused(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task
    def charge(run: Run) -> None:
        with by_itself(effects) as connection:
            run.complete(connection)
            effects.add(connection, 7)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "transaction" in error_of(exact_app, job)


async def test_an_awaited_completion_that_would_commit_by_itself_is_refused(
    exact_app: Duly, effects: Effects
) -> None:
    @exact_app.task
    async def charge(run: Run) -> None:
        with by_itself(effects) as connection:
            await run.acomplete(connection)
            effects.add(connection, 7)

    job = charge.enqueue()
    async with exact_app.worker():
        await exact_app.jobs.await_all([job], timeout=60)

    assert (effects.all(), job.state()) == ([], "failed")


def test_a_try_again_of_what_was_committed_is_told_to_roll_back(exact_app: Duly, effects: Effects) -> None:
    tries: list[int] = []

    @exact_app.task
    def charge(run: Run) -> None:
        while len(tries) < 2:  # as a loop does that lost the answer to its first COMMIT
            tries.append(len(tries))
            with transaction(effects) as connection:
                effects.add(connection, 7)
                run.complete(connection)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state(), len(tries)) == ([7], "done", 2)


def test_completing_on_the_runs_own_connection_is_one_commit_with_that_result(
    exact_app: Duly, effects: Effects
) -> None:
    @exact_app.task(delivery="exactly_once", keep_result="1h")
    def charge(run: Run) -> str:
        effects.add(run.connection, 7)
        run.complete(run.connection, result="early")
        return "late"

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state(), job.result()) == ([7], "done", "early")
    assert events(exact_app.jobs.get(job)) == ["done"]


@pytest.mark.parametrize("is_taken_before", [False, True])
def test_effects_after_a_completion_elsewhere_are_refused(
    exact_app: Duly, effects: Effects, *, is_taken_before: bool
) -> None:
    told: list[str] = []

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        taken = run.connection if is_taken_before else None
        with transaction(effects) as connection:
            effects.add(connection, 7)
            run.complete(connection)
        try:
            effects.add(taken or run.connection, 8)
        except BaseException as error:
            told.append(str(error))
            raise

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state(), len(told)) == ([7], "done", 1)


def test_a_completion_apart_from_the_effects_is_refused(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        with by_itself(effects) as connection:
            connection.execute("begin")
            effects.add(run.connection, 7)
            run.complete(connection)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "one of the two" in error_of(exact_app, job)


def test_a_request_for_the_runs_own_key_after_its_completion_is_not_lost(
    exact_app: Duly, effects: Effects
) -> None:
    @exact_app.task
    def crawl(run: Run, page: int) -> None:
        with transaction(effects) as connection:
            effects.add(connection, page)
            run.complete(connection)
        if page < 3:
            crawl.using(key="site").enqueue(page + 1)

    crawl.using(key="site").enqueue(1)
    run_all(exact_app)

    assert effects.all() == [1, 2, 3]


async def test_an_async_body_may_complete_on_its_own_connection(exact_app: Duly, effects: Effects) -> None:
    if effects.is_sqlite:
        pytest.skip("what is awaited on SQLite is no connection of the driver's")

    @exact_app.task(delivery="exactly_once", keep_result="1h")
    async def charge(run: Run) -> str:
        await effects.aadd(run.connection, 7)
        await run.acomplete(run.connection, result="early")
        return "late"

    job = charge.enqueue()
    async with exact_app.worker():
        await exact_app.jobs.await_all([job], timeout=60)

    assert (effects.all(), job.state(), job.result()) == ([7], "done", "early")
