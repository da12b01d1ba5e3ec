"""Claims that meet what happens to their worker: its jobs are taken back, it leaves, its answer is lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import LiteralString, NoReturn

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import asking, claim, ended, eventually, find, put, request, settle

from duly.errors import StoreUnavailable
from duly.job import Claim, State
from duly.stores.contract import Cancel, Selection
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.message import Part
from duly.stores.postgres.wire import Wire


def warm(store: PostgresStore) -> None:
    """Let the store know its lane and the server its worker, until a claim is one message again."""
    for _ in range(4):
        put(store, request())
        settle(store, *claim(store))


def lend(store: PostgresStore) -> Claim:
    put(store, request())
    (lent,) = claim(store)
    return lent


def write(connection: psycopg.Connection, schema: str, statement: LiteralString) -> None:
    connection.execute(sql.SQL(statement).format(sql.Identifier(schema, "worker")))


def is_waited_for(store: PostgresStore, schema: str) -> bool:
    with psycopg.connect(store.url) as looking:
        found = looking.execute(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like %s",
            (f'%"{schema}".worker%',),
        )
        return found.fetchone() is not None


def test_what_is_lent_to_a_worker_just_given_up_is_lent_again_after_its_lease(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    """Who takes its jobs back holds the worker's row; the claim began before, while the lease was good."""
    warm(store)
    (placed,) = put(store, request())
    write(connection, schema, "select 1 from {} for update")
    write(connection, schema, "update {} set is_cleared = true")
    lent: list[Claim] = []
    claiming = threading.Thread(target=lambda: lent.extend(claim(store)))
    claiming.start()
    assert eventually(lambda: is_waited_for(other, schema))
    connection.commit()
    claiming.join(60)
    write(connection, schema, "update {} set lease_until = 0")
    connection.commit()

    taken_over = claim(other, "w2")

    assert [one.id for one in lent] == [placed.id]
    assert [one.id for one in taken_over] == [placed.id]


def test_a_worker_that_has_left_settles_with_care_what_was_to_be_cancelled(store: PostgresStore) -> None:
    warm(store)
    lent = lend(store)
    store.run(store.amend(Selection(ids=(lent.id,)), Cancel()))
    store.run(store.leave("w1"))

    store.run(store.turn(ended(lent), asking()))

    assert find(store, lent.id)[0].state is State.CANCELLED


def test_a_claim_still_under_way_when_it_is_disowned_is_handed_back(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    """Its answer was not waited for, but the server had not done with it."""
    warm(store)
    (placed,) = put(store, request())
    (lent,) = store.run_on(connection, store.claim(asking())).claims
    disowned: list[int] = []
    disowning = threading.Thread(target=lambda: disowned.append(store.run(store.disown("w1", []))))
    disowning.start()
    assert eventually(lambda: is_waited_for(other, schema))
    connection.commit()
    disowning.join(60)

    assert (lent.id, disowned) == (placed.id, [1])
    assert find(store, placed.id)[0].state is State.WAITING


def test_a_claim_that_the_server_reads_after_it_was_disowned_lends_nothing(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection broke, but all of it was on its way: the server does not know that nobody listens."""
    warm(store)
    (placed,) = put(store, request())
    late: list[Sequence[Part]] = []

    def break_off(_wire: Wire, parts: Sequence[Part], *_given: object) -> NoReturn:
        late.append(parts)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(Wire, "say", break_off)
        with pytest.raises(StoreUnavailable):
            claim(store)
    store.run(store.disown("w1", []))
    with Wire.open(store.driver.address, store.driver.patience) as wire:
        wire.say(late[0])

    assert find(store, placed.id)[0].state is State.WAITING
    assert [one.id for one in claim(store)] == [placed.id]
