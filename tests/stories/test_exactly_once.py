"""Exactly once: what a body writes on run.connection and its completion commit together, or neither does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, events, in_state, run_all, until, working
from tests.stories.effects import Effects

from duly import ConditionFailed, Duly, Retry, Run, State


class CloudError(Exception):
    pass


def test_the_effect_and_the_completion_are_both_there(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once", keep_result="1h")
    def charge(run: Run, amount: int) -> int:
        effects.add(run.connection, amount)
        return amount * 2

    job = charge.enqueue(7)
    run_all(exact_app)

    assert (effects.all(), job.state(), job.result()) == ([7], "done", 14)
    assert events(exact_app.jobs.get(job)) == ["done"]


async def test_an_async_body_awaits_its_connection(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    async def charge(run: Run, amount: int) -> None:
        await effects.aadd(run.connection, amount)
        cursor = await run.connection.execute("select 1")
        assert tuple(await cursor.fetchone()) == (1,)

    jobs = [charge.enqueue(amount) for amount in range(5)]
    async with exact_app.worker():
        await exact_app.jobs.await_all(jobs, timeout=60)

    assert sorted(effects.all()) == [0, 1, 2, 3, 4]


def test_a_body_that_raises_leaves_nothing_behind(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        raise ValueError("no credit")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "no credit" in (exact_app.jobs.get(job).error or "")


def test_a_retry_starts_from_nothing(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(
        delivery="exactly_once", retry=Retry(on=CloudError, attempts=3, backoff="fixed", first="0s")
    )
    def charge(run: Run) -> None:
        effects.add(run.connection, run.attempt)
        if run.attempt < 3:
            raise CloudError("not yet")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([3], "done")


def test_a_condition_that_fails_rolls_back_and_skips(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        raise ConditionFailed("paid already")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "skipped")


def test_a_deferral_rolls_back(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        run.defer("1h")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "waiting")


def test_each_cycle_of_a_perpetual_keeps_its_effects(exact_app: Duly, effects: Effects) -> None:
    @exact_app.perpetual(every="10ms", delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, run.epoch)
        if run.epoch == 3:
            run.stop()

    job = charge.enqueue()
    with working(exact_app):
        in_state(exact_app, job, "done")

    assert effects.all() == [1, 2, 3]
    assert events(exact_app.jobs.get(job)) == ["again", "again", "stop"]


def test_a_body_that_never_touches_its_connection_is_settled_as_any_other(exact_app: Duly) -> None:
    @exact_app.task(delivery="exactly_once")
    def idle() -> None: ...

    jobs = [idle.enqueue() for _ in range(20)]
    run_all(exact_app)

    assert {job.state() for job in jobs} == {"done"}


def test_a_cancel_that_came_first_rolls_the_effects_back(exact_app: Duly, effects: Effects) -> None:
    gate = Gate()

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        gate.wait_here()
        effects.add(run.connection, 7)

    job = charge.enqueue()
    with working(exact_app):
        gate.reached()
        job.cancel()
        gate.open()
        ended(exact_app, job)

    assert (effects.all(), job.state()) == ([], "cancelled")


def test_a_replace_that_came_first_rolls_the_effects_back(exact_app: Duly, effects: Effects) -> None:
    gate = Gate()

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        if amount == 1:
            gate.wait_here()
        effects.add(run.connection, amount)

    older = charge.using(key="order").enqueue(1)
    with working(exact_app):
        gate.reached()
        newer = charge.using(key="order", replace=True).enqueue(2)
        gate.open()
        ended(exact_app, newer)
        job = ended(exact_app, older)

    assert effects.all() == [2]
    assert (job.state, job.reason) == (State.CANCELLED, f"superseded by {newer.id}")


def test_what_a_body_enqueues_exists_only_if_it_commits(exact_app: Duly, effects: Effects) -> None:
    receipts: list[int] = []

    @exact_app.task
    def receipt(amount: int) -> None:
        receipts.append(amount)

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        effects.add(run.connection, amount)
        receipt.enqueue(amount)
        receipt.using(key=f"order:{amount}").enqueue(amount + 100)
        if amount < 0:
            raise ValueError("no credit")

    charge.enqueue(1)
    charge.enqueue(-1)
    run_all(exact_app)

    assert effects.all() == [1]
    assert sorted(receipts) == [1, 101]


def test_a_request_for_the_runs_own_key_is_part_of_its_end(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def crawl(run: Run, page: int) -> None:
        effects.add(run.connection, page)
        if page < 3:
            assert crawl.using(key="site").enqueue(page + 1).decision == "pending"

    crawl.using(key="site").enqueue(1)
    run_all(exact_app)

    assert effects.all() == [1, 2, 3]


def _commit(run: Run) -> None:
    run.connection.commit()


def _roll_back(run: Run) -> None:
    run.connection.rollback()


def _close(run: Run) -> None:
    run.connection.close()


def _say_commit(run: Run) -> None:
    run.connection.execute("commit")


def _use_as_block(run: Run) -> None:
    with run.connection:
        run.connection.execute("select 1")


MEDDLING: dict[str, Callable[[Run], Any]] = {
    "commits": _commit,
    "rolls back": _roll_back,
    "closes": _close,
    "says commit": _say_commit,
    "uses it as a block": _use_as_block,
}


@pytest.mark.parametrize("meddle", MEDDLING)
def test_a_body_that_ends_its_transaction_itself_fails_and_is_told_why(
    exact_app: Duly, effects: Effects, meddle: str
) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute("select 1")
        MEDDLING[meddle](run)
        effects.add(run.connection, 7)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "run.connection" in (exact_app.jobs.get(job).error or "")


def test_a_body_that_hides_its_commit_is_found_out(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        try:
            run.connection.execute("commit")
            run.connection.execute("begin")
        except Exception:
            run.log.debug("swallowed")

    job = charge.enqueue()
    run_all(exact_app)

    if "sqlite" in exact_app.settings.url:  # refused before anything happened
        assert (effects.all(), job.state()) == ([7], "done")
    else:
        assert job.state() == "failed"
        assert "ended the transaction" in (exact_app.jobs.get(job).error or "")


def test_several_bodies_at_once_all_get_their_turn(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        effects.add(run.connection, amount)
        effects.add(run.connection, amount)

    for amount in range(40):
        charge.enqueue(amount)
    run_all(exact_app, concurrency=8)

    assert sorted(effects.all()) == sorted([*range(40), *range(40)])


@pytest.mark.parametrize("place", ["memory", "redis"])
def test_a_store_without_transactions_says_so_at_once(place: str, open_app: OpenApp) -> None:
    app = Duly("memory://" if place == "memory" else "redis://localhost:1")

    @app.task(delivery="exactly_once")
    def charge() -> None: ...

    with pytest.raises(ValueError, match="ledger"):
        charge.enqueue()
    with pytest.raises(ValueError, match="sqlite:/// or postgresql://"):
        app.worker()


def test_only_an_exactly_once_task_has_a_connection(exact_app: Duly) -> None:
    @exact_app.task
    def charge(run: Run) -> None:
        assert run.connection

    job = charge.enqueue()
    run_all(exact_app)

    until(lambda: job.state() == "failed")
    assert "delivery='exactly_once'" in (exact_app.jobs.get(job).error or "")
