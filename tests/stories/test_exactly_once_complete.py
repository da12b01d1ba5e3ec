"""run.complete(connection): the completion in a transaction that the body opened itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from tests.stories.arrange import Gate, ended, events, in_state, run_all, working
from tests.stories.effects import Effects

from duly import Duly, LeaseLost, Run


@contextmanager
def transaction(effects: Effects) -> Generator[Any, None, None]:
    """A transaction of the body's own; commits unless an exception leaves it."""
    if effects.is_sqlite:
        with closing(sqlite3.connect(effects.path, isolation_level=None, timeout=60)) as connection:
            connection.execute("begin immediate")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")
    else:
        with psycopg.connect(effects.url) as connection:
            yield connection


def test_effect_and_completion_commit_together(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(keep_result="1h")
    def charge(run: Run) -> str:
        with transaction(effects) as connection:
            effects.add(connection, 7)
            run.complete(connection, result="paid")
        assert exact_app.jobs.get(run.id).state == "done"
        return "not this"

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state(), job.result()) == ([7], "done", "paid")
    assert events(exact_app.jobs.get(job)) == ["done"]


async def test_an_async_body_completes_on_an_async_connection(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task
    async def charge(run: Run) -> None:
        if effects.is_sqlite:
            with transaction(effects) as connection:
                effects.add(connection, 7)
                await run.acomplete(connection)
        else:
            async with await psycopg.AsyncConnection.connect(effects.url) as connection:
                await effects.aadd(connection, 7)
                await run.acomplete(connection)

    job = charge.enqueue()
    async with exact_app.worker():
        await exact_app.jobs.await_all([job], timeout=60)

    assert (effects.all(), job.state()) == ([7], "done")


def test_a_transaction_that_was_not_committed_fails_the_run(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task
    def charge(run: Run) -> None:
        try:
            with transaction(effects) as connection:
                effects.add(connection, 7)
                run.complete(connection)
                raise ValueError("swallowed")
        except ValueError:
            pass

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "did not commit" in (exact_app.jobs.get(job).error or "")


def test_a_transaction_that_is_tried_again_completes_in_its_last_try(
    exact_app: Duly, effects: Effects
) -> None:
    tries: list[int] = []

    @exact_app.task
    def charge(run: Run) -> None:
        while True:
            try:
                with transaction(effects) as connection:
                    tries.append(len(tries))
                    effects.add(connection, 7)
                    run.complete(connection)
                    run.complete(connection)
                    if len(tries) < 3:
                        raise sqlite3.OperationalError("could not serialize")
                return
            except sqlite3.OperationalError:
                continue

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state(), len(tries)) == ([7], "done", 3)


def test_what_was_committed_is_done_although_the_body_raises_afterwards(
    exact_app: Duly, effects: Effects
) -> None:
    @exact_app.task
    def charge(run: Run) -> None:
        with transaction(effects) as connection:
            effects.add(connection, 7)
            run.complete(connection)
        raise ValueError("too late")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([7], "done")
    assert events(exact_app.jobs.get(job)) == ["done"]


def test_a_superseded_run_is_told_so_and_rolls_back(exact_app: Duly, effects: Effects) -> None:
    gate = Gate()
    told: list[str] = []

    @exact_app.task
    def charge(run: Run, amount: int) -> None:
        if amount == 1:
            gate.wait_here()
        try:
            with transaction(effects) as connection:
                effects.add(connection, amount)
                run.complete(connection)
        except LeaseLost as error:
            told.append(str(error))
            raise

    older = charge.using(key="order").enqueue(1)
    with working(exact_app):
        gate.reached()
        newer = charge.using(key="order", replace=True).enqueue(2)
        gate.open()
        ended(exact_app, newer)
        ended(exact_app, older)

    assert (effects.all(), older.state()) == ([2], "cancelled")
    assert "superseded" in told[0]


def test_a_perpetual_completes_its_cycle(exact_app: Duly, effects: Effects) -> None:
    @exact_app.perpetual(every="10ms")
    def charge(run: Run) -> None:
        if run.epoch == 3:
            run.stop()
        with transaction(effects) as connection:
            effects.add(connection, run.epoch)
            run.complete(connection)
            run.complete(connection)

    job = charge.enqueue()
    with working(exact_app):
        in_state(exact_app, job, "done")

    assert effects.all() == [1, 2, 3]
    assert events(exact_app.jobs.get(job)) == ["again", "again", "stop"]


def test_another_database_is_refused(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task
    def charge(run: Run) -> None:
        with closing(sqlite3.connect(":memory:")) as elsewhere:
            run.complete(elsewhere)

    job = charge.enqueue()
    run_all(exact_app)

    assert job.state() == "failed"
    assert "WrongConnection" in (exact_app.jobs.get(job).error or "")
