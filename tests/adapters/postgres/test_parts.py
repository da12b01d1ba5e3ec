"""Many requests of one call: sent in parts while the rest is packed, and stored together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import eventually, find, put, request

from duly.bundle import Bundle, Later
from duly.ids import new_ids
from duly.job import Decision
from duly.stores.contract import Selection
from duly.stores.drive import Row
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.message import Part
from duly.stores.postgres.wire import Overdue, Wire, within


def many(amount: int, make: Callable[[int, int], list[str]] | None = None) -> Bundle:
    """Requests whose arguments are packed when it is their turn."""
    texts = Later(
        amount, make or (lambda start, stop: [f"[[{number}],{{}}]" for number in range(start, stop)])
    )
    return Bundle(request(), new_ids(amount), texts)


def test_many_requests_take_one_message_also_in_a_lane_that_nobody_has_used(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    speak = Wire.say

    def overheard(self: Wire, parts: Sequence[Part], *given: Any) -> list[list[Row]]:
        said.append(len(parts))
        return speak(self, parts, *given)

    monkeypatch.setattr(Wire, "say", overheard)

    placed = store.run(store.put(wanted := many(1000)))

    assert len(said) == 1
    assert said[0] > 2
    assert [one.id for one in placed] == wanted.ids
    assert [one.generation for one in placed] == sorted({one.generation for one in placed})
    found = {job.id: job.arguments for job in find(store, *wanted.ids)}
    assert found == dict(zip(wanted.ids, wanted.arguments, strict=True))


def test_the_server_stores_the_first_requests_while_the_next_are_packed(
    store: PostgresStore, url: str, schema: str
) -> None:
    put(store, request())
    was_at_work: list[bool] = []

    def pack(start: int, stop: int) -> list[str]:
        if start:
            was_at_work.append(eventually(lambda: holds_lock(url, schema, "job")))
        return ["[[],{}]"] * (stop - start)

    store.run(store.put(many(1000, pack)))

    assert was_at_work
    assert all(was_at_work)


def holds_lock(url: str, schema: str, table: str) -> bool:
    """Whether somebody writes to the table."""
    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute(
            "select 1 from pg_locks where mode = 'RowExclusiveLock' and relation = %s::regclass",
            (sql.Identifier(schema, table).as_string(None),),
        )
        return found.fetchone() is not None


@pytest.mark.parametrize("error", [RuntimeError, UnicodeError], ids=lambda kind: kind.__name__)
def test_nothing_is_stored_when_the_last_requests_cannot_be_packed(
    store: PostgresStore, error: type[Exception]
) -> None:
    put(store, request())

    def pack(start: int, stop: int) -> list[str]:
        if stop == 1000:
            raise error("the last")
        return ["[[],{}]"] * (stop - start)

    with pytest.raises(error, match="the last"):
        store.run(store.put(many(1000, pack)))

    assert store.run(store.count(Selection())) == 1
    assert len(store.run(store.put(many(1000)))) == 1000


def test_an_id_that_is_known_by_the_last_of_many_requests_keeps_its_job(store: PostgresStore) -> None:
    (known,) = put(store, request())
    wanted = many(1000)
    bundle = Bundle(wanted.pattern, [*wanted.ids[:-1], known.id], wanted.arguments)

    placed = store.run(store.put(bundle))

    assert placed[-1] == (known.id, known.generation, Decision.KEPT)
    assert {one.decision for one in placed[:-1]} == {Decision.CREATED}
    assert store.run(store.count(Selection())) == 1000


async def test_many_requests_are_stored_in_one_message_from_an_event_loop_too(store: PostgresStore) -> None:
    placed = await store.arun(store.put(wanted := many(1000)))

    assert [one.id for one in placed] == wanted.ids
    assert [one.generation for one in placed] == sorted({one.generation for one in placed})


def test_only_a_server_that_says_nothing_for_long_is_given_up() -> None:
    def conversation() -> Generator[str, bool, None]:
        while True:
            yield "anything"

    steps = within(conversation(), seconds=-1)
    next(steps)
    for is_ready in (False, True, False, True):  # late by any clock, and yet it goes on
        steps.send(is_ready)

    steps.send(False)
    with pytest.raises(Overdue):
        steps.send(False)
