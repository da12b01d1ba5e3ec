"""Batches of verdicts, of which most end together and some need a decision of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.sqlite_operations.arrange import SECOND, TASK, ask, done, job, lend, request, requests
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import State
from duly.lifecycle import Done, Fail, Settled, TryAgain
from duly.stores.contract import Cancel, Lane, Selection, Settlement
from duly.testing import VirtualClock


def test_answers_come_in_the_order_of_the_verdicts(store: PlainStore) -> None:
    store.run(store.put(requests(5)))
    claims = lend(store)
    settlements = done(claims)
    settlements[1] = Settlement(claims[1].fence, Fail("no"))
    settlements[3] = Settlement(claims[3].fence._replace(nonce="stale"), Done())

    answers = store.run(store.settle("w1", settlements))

    assert answers == [Settled.SETTLED, Settled.SETTLED, Settled.SETTLED, Settled.LOST, Settled.SETTLED]
    assert [job(store, claim.id).state for claim in claims] == [
        State.DONE,
        State.FAILED,
        State.DONE,
        State.RUNNING,
        State.DONE,
    ]


@pytest.mark.parametrize("result", ["[1]", "a\0b", "é"])
def test_results_stay_with_their_jobs(store: PlainStore, clock: VirtualClock, result: str) -> None:
    store.run(store.put(requests(3)))
    claims = lend(store)
    settlements = done(claims)
    settlements[1] = Settlement(claims[1].fence, Done(result, keep_result=10 * SECOND))

    store.run(store.settle("w1", settlements))

    assert [job(store, claim.id).result for claim in claims] == [None, result, None]
    clock.advance(10 * SECOND)
    store.run(store.prune(0))
    assert job(store, claims[1].id).result is None


def test_a_result_that_is_said_again_changes_nothing(store: PlainStore) -> None:
    store.run(store.put([request()]))
    (lent,) = lend(store)
    store.run(store.settle("w1", done([lent])))

    answers = store.run(store.settle("w1", done([lent], Done("2", keep_result=SECOND))))

    assert answers == [Settled.SETTLED]
    assert job(store, lent.id).result is None


@pytest.mark.parametrize("name", ['"', "\\", "é𝄞", "\n", "a.b[0]", ""])
def test_whatever_a_job_is_called_its_run_is_settled(store: PlainStore, name: str) -> None:
    store.run(store.put([request(id=name), *requests(2)]))
    claims = lend(store)

    answers = store.run(store.settle("w1", done(claims)))

    assert answers == [Settled.SETTLED] * 3
    assert [job(store, claim.id).state for claim in claims] == [State.DONE] * 3
    assert [len(job(store, claim.id).history) for claim in claims] == [1] * 3


def test_a_finished_run_leaves_one_line_with_its_start(store: PlainStore, clock: VirtualClock) -> None:
    store.run(store.put(requests(2)))
    claims = lend(store)
    started_at = clock.now()
    clock.advance(SECOND)

    store.run(store.settle("w1", [Settlement(claim.fence, Done(), started_at) for claim in claims]))

    [line] = job(store, claims[0].id).history
    assert (line.event, line.worker, line.started_at, line.at) == ("done", "w1", started_at, clock.now())


def test_of_two_verdicts_for_one_claim_the_first_counts(store: PlainStore) -> None:
    store.run(store.put(requests(1)))
    [claim] = lend(store)
    follow_up = request()

    answers = store.run(
        store.settle(
            "w1", [Settlement(claim.fence, Done(), then=(follow_up,)), Settlement(claim.fence, Done())]
        )
    )

    assert answers == [Settled.SETTLED, Settled.SETTLED]
    assert [one.id for one in lend(store)] == [follow_up.id]
    assert len(job(store, claim.id).history) == 1


def test_a_wish_among_plain_verdicts_is_honoured(store: PlainStore) -> None:
    store.run(store.put(requests(3)))
    claims = lend(store)
    store.run(store.amend(Selection(ids=(claims[1].id,)), Cancel()))

    store.run(store.settle("w1", done(claims)))

    assert [job(store, claim.id).state for claim in claims] == [State.DONE, State.CANCELLED, State.DONE]


def test_whoever_waits_behind_a_plain_verdict_is_promoted(store: PlainStore) -> None:
    store.run(store.put([request(key="a"), request(key="b")]))
    claims = lend(store)
    behind = request(key="a")
    store.run(store.put([behind]))

    store.run(store.settle("w1", done(claims)))

    assert [claim.id for claim in lend(store)] == [behind.id]


def test_a_turn_lends_what_its_verdicts_set_free(store: PlainStore) -> None:
    limited = Lane(TASK, concurrency=1)
    store.run(store.put(requests(2)))
    first = store.run(store.claim(ask("w1", limited))).claims

    turned = store.run(store.turn(done(first), ask("w1", limited)))

    assert turned.answers == [Settled.SETTLED]
    assert len(turned.claimed.claims) == 1


def test_a_failed_job_is_found_by_its_error_whatever_the_case(store: PlainStore) -> None:
    store.run(store.put(requests(2)))
    claims = lend(store)
    settlements = [
        Settlement(claims[0].fence, Fail("ÉCHEC du paiement")),
        Settlement(claims[1].fence, TryAgain(SECOND, "Zeitüberschreitung")),
    ]
    store.run(store.settle("w1", settlements))

    assert store.run(store.count(Selection(error="échec"))) == 1
    assert store.run(store.count(Selection(error="ZEITÜBER"))) == 1
    assert store.run(store.count(replace(Selection(error="é"), states=(State.WAITING,)))) == 0


def test_runs_that_end_together_leave_no_lines_beside_their_rows(store: PlainStore) -> None:
    store.run(store.put(requests(3)))
    claims = lend(store)

    store.run(store.settle("w1", done(claims)))

    assert store.connection.execute("select count(*) from duly_history").fetchone() == (0,)
    assert [[line.event for line in job(store, claim.id).history] for claim in claims] == [["done"]] * 3


def test_a_row_gives_up_in_blanks_what_a_loan_and_an_end_write(
    store: PlainStore, clock: VirtualClock
) -> None:
    store.run(store.put([request()]))
    (lent,) = lend(store)
    times, words = 3 * 8, len("done") + len("done") - len("running")

    store.run(store.settle("w1", [Settlement(lent.fence, Done(), clock.now())]))

    default = "select dflt_value from pragma_table_info('duly_job') where name = 'spare'"
    ((before, after),) = store.connection.execute(f"select ({default}), spare from duly_job")
    assert len(before.strip("'")) - len(after) == len("w1") + len(lent.nonce) + times + words
