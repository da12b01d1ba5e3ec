"""Rows that somebody's transaction holds: a worker does not stand behind them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import psycopg
from psycopg import sql
from tests.adapters.postgres.arrange import KEY, LEASE, TASK, claim, find, held_up, put, request, settle

from duly.job import Decision, State
from duly.lifecycle import Done, Settled
from duly.stores.contract import Ask, Cancel, Lane, Selection, Settlement
from duly.stores.postgres import PostgresStore

SOON = 30.0
"""Seconds: longer than a worker waits for a lock, shorter than a user's transaction in these tests."""


def hold(connection: psycopg.Connection, schema: str, table: str) -> None:
    """Lock every row of a table until the connection commits."""
    connection.execute(sql.SQL("select 1 from {} for update").format(sql.Identifier(schema, table)))


def test_a_settle_of_a_held_loan_is_busy_and_settled_when_it_is_let_go(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(), request())
    lent = claim(store)
    hold(connection, schema, "running")

    began = time.monotonic()
    while_held = settle(store, *lent)
    took = time.monotonic() - began
    connection.rollback()

    assert while_held == [Settled.BUSY, Settled.BUSY]
    assert took < SOON
    assert settle(store, *lent) == [Settled.SETTLED, Settled.SETTLED]


def test_only_the_held_one_of_a_batch_is_busy(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(), request(), request())
    first, second, third = claim(store)
    connection.execute(
        sql.SQL("select 1 from {} where generation = %s for update").format(
            sql.Identifier(schema, "running")
        ),
        (second.generation,),
    )

    answers = settle(store, first, second, third)

    assert answers == [Settled.SETTLED, Settled.BUSY, Settled.SETTLED]
    assert find(store, second.id)[0].state is State.RUNNING


def test_a_settle_behind_a_held_key_is_busy(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(KEY), request())
    keyed, free = claim(store)
    hold(connection, schema, "serial")

    while_held = settle(store, keyed, free)
    connection.rollback()

    assert while_held == [Settled.BUSY, Settled.SETTLED]
    assert settle(store, keyed) == [Settled.SETTLED]


def test_a_turn_settles_and_lends_what_nobody_holds(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(KEY))
    [keyed] = claim(store)
    put(store, request())
    hold(connection, schema, "serial")
    ask = Ask("w1", {TASK: Lane(TASK)}, LEASE, limit=10, free=10)

    turned = store.run(store.turn([Settlement(keyed.fence, Done())], ask))

    assert turned.answers == [Settled.BUSY]
    assert len(turned.claimed.claims) == 1


def test_a_claim_passes_over_jobs_and_keys_that_are_held(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(KEY), request("other"), request())
    hold(connection, schema, "serial")

    while_held = claim(store)
    connection.rollback()

    assert len(while_held) == 1
    assert len(claim(store)) == 2


def test_a_claim_does_not_wait_for_ready_rows(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request(), request())
    hold(connection, schema, "ready")
    late = request()
    put(store, late)

    assert [lent.id for lent in claim(store)] == [late.id]


def test_a_worker_that_somebody_looks_at_still_beats_and_claims(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    put(store, request())
    claim(store)
    connection.execute(sql.SQL("select 1 from {} for share").format(sql.Identifier(schema, "worker")))
    put(store, request())

    assert len(claim(store)) == 1


def test_two_workers_never_lend_one_job_twice(store: PostgresStore, other: PostgresStore) -> None:
    put(store, *(request() for _ in range(400)), *(request(f"k{number}") for number in range(100)))
    lent: dict[str, list[str]] = {"a": [], "b": []}

    def drain(one: PostgresStore, worker: str) -> None:
        while claims := claim(one, worker, limit=7):
            lent[worker] += [got.id for got in claims]
            assert set(settle(one, *claims, worker=worker)) == {Settled.SETTLED}

    threads = [threading.Thread(target=drain, args=(one, name)) for one, name in ((store, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while claims := claim(store, "a"):  # what was just being taken when both looked for the last time
        lent["a"] += [got.id for got in claims]
        settle(store, *claims, worker="a")

    assert len(lent["a"]) + len(lent["b"]) == 500
    assert not set(lent["a"]) & set(lent["b"])
    assert store.run(store.count(Selection(states=(State.DONE,)))) == 500


def test_a_key_runs_once_at_a_time_however_many_workers_claim_and_ask(
    store: PostgresStore, other: PostgresStore
) -> None:
    running = 0
    most = 0
    guard = threading.Lock()

    def work(one: PostgresStore, worker: str) -> None:
        nonlocal running, most
        for _ in range(40):
            put(one, request(KEY), request("second"))
            for got in claim(one, worker, limit=2):
                if got.key == KEY:
                    with guard:
                        running += 1
                        most = max(most, running)
                    time.sleep(0.001)
                    with guard:
                        running -= 1
                while settle(one, got, worker=worker) == [Settled.BUSY]:
                    pass

    threads = [threading.Thread(target=work, args=(one, name)) for one, name in ((store, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_a_cancel_that_was_acknowledged_is_never_overrun_by_a_settle(
    store: PostgresStore, other: PostgresStore
) -> None:
    contradictions = [told for _ in range(40) if (told := race(store, other))]

    assert contradictions == []


def race(store: PostgresStore, other: PostgresStore) -> str:
    """A settle and a cancel of one run at the same time; says what does not fit together, if anything."""
    put(store, request())
    [lent] = claim(store)
    start = threading.Barrier(2)
    answers: list[bool] = []

    def cancel() -> None:
        start.wait()
        [amended] = other.run(other.amend(Selection(ids=(lent.id,)), Cancel()))
        answers.append(amended.took_effect)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    start.wait()
    while settle(store, lent) == [Settled.BUSY]:
        pass
    canceller.join()
    state = find(store, lent.id)[0].state
    is_told_right = answers == [state is State.CANCELLED]
    return "" if is_told_right else f"cancel took effect: {answers}, and the job is {state}"


def test_a_job_that_somebody_moves_to_a_new_lane_meanwhile_is_found_there(
    store: PostgresStore, other: PostgresStore
) -> None:
    (standing,) = put(store, request(KEY))
    find(store, standing.id)  # now it knows every lane there is

    def move() -> None:
        put(other, replace(request(KEY), priority=7))

    (placed,) = store.run(held_up(store.put([request(KEY)]), "moment", move))

    assert (placed.id, placed.decision) == (standing.id, Decision.KEPT)


def test_a_table_that_is_being_analysed_keeps_no_new_task_out(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    """As a vacuum does for as long as it takes: its lock waits for writers of the table, and they for it."""
    connection.execute(sql.SQL("analyze {}").format(sql.Identifier(schema, "lane")))

    [placed] = put(store, request(task="new"))
    connection.rollback()

    assert placed.decision is Decision.CREATED
