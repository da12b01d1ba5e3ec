"""Where a claim begins to look: behind what was lent, and back in time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import Any, NoReturn, TypeVar

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import (
    LEASE,
    asking,
    claim,
    due_long_ago,
    ended,
    eventually,
    find,
    held_up,
    put,
    request,
    settle,
)
from tests.contract.arrange import TASK, ask, card

from duly.job import Claim
from duly.stores.contract import Ask, Lane
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.operations.loads import Loads
from duly.stores.postgres.operations.sight import A_SECOND, CLAIMS, PAUSE, START, WORTH_IT, Sight

T = TypeVar("T")

LANE = 7
MANY = 1500
NOW = 10**15


def warm(reached: int = 100) -> Sight:
    """A lane from which enough was lent."""
    sight = Sight()
    sight.lent(LANE, WORTH_IT, (reached, 1))
    sight.points([LANE], NOW)
    return sight


def test_a_lane_from_which_little_was_lent_is_seen_whole() -> None:
    sight = Sight()
    sight.lent(LANE, WORTH_IT - 1, (100, 1))

    assert sight.points([LANE], NOW) == {LANE: START}


def test_a_lane_from_which_much_was_lent_is_seen_from_there_on() -> None:
    assert warm().points([LANE], NOW + 1) == {LANE: (100, 1)}


def test_it_is_seen_whole_again_every_hundred_claims() -> None:
    sight = warm()

    seen = [sight.points([LANE], NOW + 1)[LANE] for _ in range(2 * CLAIMS)]

    assert seen.count(START) == 2


def test_it_is_seen_whole_again_every_second() -> None:
    sight = warm()

    seen = [sight.points([LANE], NOW + step * A_SECOND // 10)[LANE] for step in range(1, 31)]

    assert seen.count(START) == 3


def test_a_clock_that_steps_back_does_not_blind_it() -> None:
    assert warm().points([LANE], NOW - 10 * A_SECOND) == {LANE: START}


def test_looking_back_for_room_is_not_done_all_the_time() -> None:
    sight = warm()
    sight.look_back([LANE], NOW)

    assert not sight.may_look_back([LANE], NOW + PAUSE - 1)
    assert sight.may_look_back([LANE], NOW + PAUSE)


def test_the_point_never_moves_back() -> None:
    sight = warm(reached=100)
    sight.lent(LANE, 1, (50, 1))

    assert sight.points([LANE], NOW + 1) == {LANE: (100, 1)}


# --- on the server ------------------------------------------------------------------------------


def drain(
    store: PostgresStore, amount: int, *, with_keys: bool = False, lanes: Sequence[Lane] = (Lane(TASK),)
) -> None:
    put(store, *(request(f"key {number}" if with_keys else None) for number in range(amount)))
    while lent := store.run(store.claim(ask(limit=500, lanes=lanes))).claims:
        settle(store, *lent)


def test_what_is_due_since_long_ago_is_found_although_much_was_lent(store: PostgresStore) -> None:
    drain(store, WORTH_IT + 100)
    early = due_long_ago(request())
    put(store, early)

    assert eventually(lambda: [got.id for got in claim(store)] == [early.id])


def test_a_claim_does_not_walk_over_what_was_lent_while_somebody_holds_an_old_snapshot(
    store: PostgresStore, connection: psycopg.Connection, schema: str, url: str
) -> None:
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select 1")
    drain(store, 3000)
    put(store, request())

    behind, whole = pages(url, schema, since=True), pages(url, schema, since=False)

    assert behind * 3 < whole


def pages(url: str, schema: str, *, since: bool) -> int:
    """How many pages the database looks at to find the first ready job, from the last one lent or not."""
    ready = sql.Identifier(schema, "ready")
    job = sql.Identifier(schema, "job")
    with psycopg.connect(url) as looker:
        looker.execute("set enable_seqscan = off")
        row = looker.execute(
            sql.SQL("select lane, max(ready_at) - 1 from {} group by lane").format(job)
        ).fetchone()
        assert row is not None
        lane, last = row
        plan: Any = looker.execute(
            sql.SQL(
                "explain (analyze, buffers, format json) select generation from {} "
                "where lane = %s and (ready_at, generation) > (%s, 0) order by ready_at, generation limit 1"
            ).format(ready),
            (lane, last if since else 0),
        ).fetchone()
        found = plan[0] if not isinstance(plan[0], str) else json.loads(plan[0])
        return int(found[0]["Plan"]["Shared Hit Blocks"])


ENTRIES = """
select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::int8 from pg_stat_user_indexes
where relid in (select oid from pg_class where relnamespace = '{literal}'::regnamespace)
"""


def entries(store: PostgresStore, operation: Operation[T]) -> tuple[T, int]:
    """What an operation answers, and how many index entries it walked over, those of dead rows included."""

    def steps() -> Steps[tuple[T, int]]:
        ((before,),) = yield Statement(ENTRIES)
        answer = yield from operation.steps()
        ((after,),) = yield Statement(ENTRIES)
        return answer, after - before

    return store.run(Operation(operation.name, steps))


@pytest.fixture(params=["unknown", "known"])
def take_stock(request: pytest.FixtureRequest, url: str, schema: str) -> Callable[[], None]:
    """The server plans anew once it knows how large the tables are: nearly empty, by what it counts."""

    def analyse() -> None:
        with psycopg.connect(url, autocommit=True) as person:
            for (table,) in person.execute(TABLES, (schema,)).fetchall():
                person.execute(sql.SQL("analyze {}").format(sql.Identifier(schema, table)))

    return analyse if request.param == "known" else lambda: None


TABLES = "select tablename from pg_tables where schemaname = %s"


def test_nothing_walks_over_the_runs_of_keys_since_an_old_snapshot(
    store: PostgresStore, connection: psycopg.Connection, take_stock: Callable[[], None]
) -> None:
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select 1")
    drain(store, MANY, with_keys=True)
    take_stock()

    _, put_walked = entries(store, store.put([request("another")]))
    lent, claim_walked = sparing_claim(store, asking(limit=1))
    _, settle_walked = entries(store, store.settle("w1", ended(*lent)))

    assert max(put_walked, claim_walked, settle_walked) < MANY // 4


def sparing_claim(store: PostgresStore, asked: Ask) -> tuple[Sequence[Claim], int]:
    """A claim, and what it walked over: the best of ten, since everything is looked at once a second."""
    put(store, *(request() for _ in range(10)))
    goes = [entries(store, store.claim(asked)) for _ in range(10)]
    claimed, walked = min(goes, key=itemgetter(1))
    assert len(claimed.claims) == 1
    return claimed.claims, walked


def test_a_claim_under_a_limit_does_not_walk_over_what_was_lent_since_an_old_snapshot(
    store: PostgresStore, connection: psycopg.Connection, take_stock: Callable[[], None]
) -> None:
    lanes = [Lane(TASK, concurrency=500)]
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select 1")
    drain(store, MANY, lanes=lanes)
    take_stock()

    _, walked = sparing_claim(store, ask(limit=1, lanes=lanes))

    assert walked < MANY // 4


# --- loans under a limit -------------------------------------------------------------------------


def known(*found: tuple[int | None, int | None, int], now: int = NOW) -> Loads:
    """What is remembered after a count."""
    loads = Loads()
    loads.learn(loads.asked([LANE], now), found)
    return loads


def test_loans_seen_before_are_asked_for_by_name_and_others_by_number() -> None:
    loads = known((LANE, 11, 3), (LANE, 12, 7))

    asked = loads.asked([LANE], NOW + 1).parameters

    assert (asked["newest"], sorted(asked["seen"].strip("{}").split(","))) == ("{7}", ["11", "12"])


def test_the_last_loan_counts_also_where_none_is_left() -> None:
    assert known((None, None, 40)).asked([LANE], NOW + 1).parameters["newest"] == "{40}"


def test_a_loan_from_a_lane_that_is_not_counted_is_left_out() -> None:
    loads = Loads()

    counted = loads.learn(loads.asked([LANE], NOW), [(LANE, 11, 3), (LANE + 1, 12, 4)])

    assert counted == {LANE: 1}


@pytest.mark.parametrize("later", [A_SECOND, -1])
def test_loans_are_counted_from_the_beginning_every_second(later: int) -> None:
    loads = known((LANE, 11, 3))

    loads.learn(loads.asked([LANE], NOW + A_SECOND - 1), [(LANE, 11, 3)])  # does not put it off

    assert loads.asked([LANE], NOW + later).lanes == Loads().asked([LANE], NOW).lanes


LIMITED = [Lane(TASK, concurrency=2)]


def lend_one(store: PostgresStore, worker: str) -> list[Claim]:
    return [*store.run(store.claim(ask(worker, limit=1, lanes=LIMITED))).claims]


def test_two_threads_that_count_at_once_keep_a_limit(store: PostgresStore) -> None:
    put(store, *(request() for _ in range(4)))
    lent = lend_one(store, "w1")

    def meanwhile() -> None:
        lent.extend(lend_one(store, "w2"))
        lent.extend(lend_one(store, "w2"))  # this one sees that there is no more room

    claiming = store.claim(ask("w1", limit=1, lanes=LIMITED))
    lent += store.run(held_up(claiming, "load.lane", meanwhile)).claims

    assert len(lent) == 2


def test_loans_taken_back_by_a_claim_that_fails_count_as_before(
    store: PostgresStore, other: PostgresStore
) -> None:
    put(store, *(request() for _ in range(4)))
    stalled = replace(ask("w2", limit=2, lanes=LIMITED), lease=timedelta(microseconds=1))
    lent = other.run(other.claim(stalled)).claims

    def fail() -> NoReturn:
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError):
        store.run(held_up(store.claim(ask("w1", limit=2, lanes=LIMITED)), "running_loan_seq", fail))
    other.run(other.renew(card("w2"), [one.fence for one in lent], LEASE))

    assert len(lent) == 2
    assert lend_one(store, "w1") == []


def test_loans_from_a_lane_made_since_the_claim_began_count_too(
    store: PostgresStore, other: PostgresStore
) -> None:
    find(store, *(placed.id for placed in put(store, request(), request())))  # it knows every lane there is

    def meanwhile() -> None:
        put(other, replace(request(), priority=7), replace(request(), priority=7))
        assert len(other.run(other.claim(ask("w2", limit=2, lanes=LIMITED))).claims) == 2

    claiming = store.claim(ask("w1", limit=2, lanes=LIMITED))

    assert store.run(held_up(claiming, "moment", meanwhile)).claims == []
