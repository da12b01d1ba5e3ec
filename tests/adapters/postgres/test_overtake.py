"""Ticks that overtake together: which schedules are not among them, whatever their tables say."""

from __future__ import annotations

from dataclasses import replace

import psycopg
from psycopg import sql
from tests.adapters.postgres.arrange import find, put, request

from duly.job import Decision, Request, State
from duly.stores.postgres import PostgresStore


def tick(schedule: str, number: int) -> Request:
    return replace(request(f"{schedule}@{number}"), serial=f"schedule|{schedule}")


def test_a_tick_clears_the_marker_that_stands_beside_the_one_it_overtakes(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    older = [one.id for one in put(store, tick("a", 1), tick("b", 1))]
    marker = sql.Identifier(schema, "marker")
    mark = sql.SQL("insert into {} select serial, 1, chain from {} where key = 'a@1'")
    connection.execute(mark.format(marker, sql.Identifier(schema, "job")))
    connection.commit()

    placed = put(store, tick("a", 2), tick("b", 2))

    assert [one.decision for one in placed] == [Decision.CREATED, Decision.CREATED]
    assert {job.state for job in find(store, *older)} == {State.SKIPPED}
    assert connection.execute(sql.SQL("select name from {}").format(marker)).fetchall() == []
