"""Operations in one message: how many are sent, and what happens when something is out of the ordinary."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import (
    LEASE,
    asking,
    claim,
    ended,
    eventually,
    find,
    put,
    request,
    settle,
)

from duly.job import Claim, Decision, Fence, State
from duly.lifecycle import Settled
from duly.stores.contract import (
    Cancel,
    Order,
    Renewal,
    Scope,
    Selection,
    Settlement,
    Switch,
    Turned,
    WorkerCard,
)
from duly.stores.drive import Row
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.message import Part
from duly.stores.postgres.wire import Wire


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the server, as it goes out."""
    said: list[str] = []
    for word in ("perform", "say"):
        monkeypatch.setattr(Wire, word, _overheard(word, said))
    return said


def _overheard(word: str, said: list[str]) -> object:
    speak = getattr(Wire, word)

    def overheard(self: Wire, *given: object) -> object:
        said.append(word)
        return speak(self, *given)

    return overheard


def turn(store: PostgresStore, *settlements: Settlement) -> Turned:
    return store.run(store.turn(settlements, asking()))


def warm(store: PostgresStore) -> None:
    """Let the store know its lane and the server its worker."""
    put(store, request())
    settle(store, *claim(store))
    while not store.run(store.claim(asking())).claims:
        put(store, request())
    turn(store, *ended(*claim(store)))


def lend(store: PostgresStore, amount: int) -> Sequence[Claim]:
    put(store, *(request() for _ in range(amount)))
    return claim(store)


def test_a_plain_request_takes_one_message(store: PostgresStore, spoken: list[str]) -> None:
    put(store, request())
    spoken.clear()

    (placed,) = put(store, request())

    assert placed.decision is Decision.CREATED
    assert spoken == ["say"]


@pytest.mark.parametrize("step", [1, 3], ids=["alone", "beside others who draw numbers"])
def test_each_request_of_a_batch_is_told_its_own_generation(
    store: PostgresStore, url: str, schema: str, spoken: list[str], step: int
) -> None:
    put(store, request())
    with psycopg.connect(url, autocommit=True) as admin:
        sequence = sql.Identifier(schema, "generation")
        admin.execute(sql.SQL("alter sequence {} increment by {}").format(sequence, sql.Literal(step)))
    spoken.clear()

    placed = put(store, *(request() for _ in range(300)))

    assert spoken == ["say"]
    assert [one.generation for one in placed] == sorted(one.generation for one in placed)
    found = {job.id: job.generation for job in find(store, *(one.id for one in placed))}
    assert found == {one.id: one.generation for one in placed}


def test_messages_are_planned_once_though_they_are_about_single_jobs(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Wire] = []
    speak = Wire.say

    def overheard(self: Wire, parts: Sequence[Part], *given: Any) -> list[list[Row]]:
        wires.append(self)
        return speak(self, parts, *given)

    monkeypatch.setattr(Wire, "say", overheard)
    warm(store)
    for _ in range(7):  # the server has made up its mind after five
        turn(store, *ended(*lend(store, 1)))

    planned = wires[-1].perform(
        b"select generic_plans > 0, custom_plans from pg_prepared_statements "
        b"where not from_sql and name like 'duly%'",
        None,
    )
    assert planned.count((True, 0)) == 3  # a put, an end, a claim
    assert not [each for each in planned if each[0] and each[1]]


def test_a_turn_takes_one_message(store: PostgresStore, spoken: list[str]) -> None:
    warm(store)
    lent = lend(store, 3)
    put(store, request())
    spoken.clear()

    turned = turn(store, *ended(*lent))

    assert (turned.answers, len(turned.claimed.claims)) == ([Settled.SETTLED] * 3, 1)
    assert spoken == ["say"]


def test_a_worker_has_something_to_do_while_the_server_is_at_work(store: PostgresStore) -> None:
    warm(store)
    lent = lend(store, 3)
    put(store, request())
    done: list[str] = []

    store.run(replace(store.turn(ended(*lent), asking()), meanwhile=lambda: done.append("turn")))
    store.run(replace(store.claim(asking()), meanwhile=lambda: done.append("claim")))

    assert done == ["turn", "claim"]


def beat(store: PostgresStore, *held: Claim) -> Renewal:
    card = WorkerCard("w1", "w1", "host", 1, datetime(2026, 11, 16, tzinfo=UTC))
    return store.run(store.renew(card, [one.fence for one in held], LEASE))


def test_a_beat_takes_one_message_and_tells_what_became_of_each_claim(
    store: PostgresStore, spoken: list[str]
) -> None:
    gone, cancelled, well = lend(store, 3)
    settle(store, gone)
    store.run(store.amend(Selection(ids=(cancelled.id,)), Cancel()))
    spoken.clear()

    renewal = beat(store, gone, cancelled, well)

    assert spoken == ["say"]
    assert renewal == Renewal(frozenset({gone.fence}), {cancelled.fence: Order.CANCEL})
    assert renewal.is_at_home


def test_a_beat_is_not_at_home_in_a_store_that_is_being_left(store: PostgresStore) -> None:
    store.run(store.seal("a move", "elsewhere"))

    assert not beat(store).is_at_home


def test_a_prune_with_nothing_to_do_is_one_question_in_a_transaction(
    store: PostgresStore, spoken: list[str]
) -> None:
    warm(store)
    spoken.clear()

    pruned = store.run(store.prune(500))

    assert pruned == 0
    assert spoken == ["perform"] * 3  # begin, look, commit


def test_a_request_that_is_known_is_kept_among_new_ones(store: PostgresStore) -> None:
    put(store, request())
    known, new = request(), request()
    put(store, known)

    first, second = put(store, known, new)

    assert (first.id, first.decision) == (known.id, Decision.KEPT)
    assert (second.id, second.decision) == (new.id, Decision.CREATED)


def test_a_late_end_is_refused_and_the_others_count(store: PostgresStore) -> None:
    warm(store)
    late, *others = lend(store, 3)
    forged = Settlement(Fence(late.id, late.epoch + 1, late.nonce), ended(late)[0].verdict)

    turned = turn(store, forged, *ended(*others))

    assert turned.answers == [Settled.LOST, Settled.SETTLED, Settled.SETTLED]
    assert find(store, late.id)[0].state is State.RUNNING


def test_an_end_with_the_secret_of_another_claim_is_refused(store: PostgresStore) -> None:
    warm(store)
    (lent,) = lend(store, 1)
    forged = ("1" if lent.nonce.startswith("0") else "0") + lent.nonce[1:]

    turned = turn(store, Settlement(Fence(lent.id, lent.epoch, forged), ended(lent)[0].verdict))

    assert turned.answers == [Settled.LOST]


def test_a_run_that_was_to_be_cancelled_is_settled_with_care(store: PostgresStore) -> None:
    warm(store)
    unwanted, other = lend(store, 2)
    store.run(store.amend(Selection(ids=(unwanted.id,)), Cancel()))

    turned = turn(store, *ended(unwanted, other))

    assert turned.answers == [Settled.SETTLED] * 2
    assert find(store, unwanted.id)[0].state is State.CANCELLED
    assert find(store, other.id)[0].state is State.DONE


def test_what_is_said_of_a_run_while_it_is_being_settled_counts(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    """The settle waits for the loan that somebody holds, with a snapshot from before what they say."""
    warm(store)
    (lent,) = lend(store, 1)
    table = sql.Identifier(schema, "running")
    connection.execute(sql.SQL("select 1 from {} for update").format(table))
    connection.execute(
        sql.SQL("insert into {} (generation, epoch, wish) values (%s, %s, 'cancel')").format(
            sql.Identifier(schema, "notice")
        ),
        (lent.generation, lent.epoch),
    )
    turned: list[Turned] = []
    turning = threading.Thread(target=lambda: turned.append(turn(store, *ended(lent))))
    turning.start()
    assert eventually(lambda: _waits(other, schema))

    connection.commit()
    turning.join(60)

    assert find(store, lent.id)[0].state is State.CANCELLED
    assert turned[0].answers == [Settled.SETTLED]


def _waits(store: PostgresStore, schema: str) -> bool:
    with psycopg.connect(store.url) as looking:
        found = looking.execute(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like %s",
            (f'%"{schema}".running%',),
        )
        return found.fetchone() is not None


def test_nothing_is_lent_from_a_lane_that_is_held(store: PostgresStore) -> None:
    warm(store)
    store.run(store.hold(Switch(Scope.TASK, "send", None)))
    put(store, request())

    assert turn(store).claimed.claims == []


def test_jobs_with_a_key_and_others_are_lent_in_order(store: PostgresStore) -> None:
    warm(store)
    placed = put(store, request()) + put(store, request("lease:42")) + put(store, request())

    lent = turn(store).claimed.claims

    assert [one.id for one in lent] == [one.id for one in placed]


@pytest.mark.parametrize("key", [None, "lease:42"])
def test_a_lane_nobody_knew_is_lent_from(store: PostgresStore, other: PostgresStore, key: str | None) -> None:
    warm(store)
    (placed,) = other.run(other.put([request(key)]))

    assert [one.id for one in turn(store).claimed.claims] == [placed.id]


async def test_an_awaited_request_takes_one_message_too(store: PostgresStore) -> None:
    await store.arun(store.put([request()]))

    (placed,) = await store.arun(store.put([request()]))

    assert placed.decision is Decision.CREATED
    assert len(find(store, placed.id)) == 1
