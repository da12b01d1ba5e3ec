"""What PostgreSQL allows, on one table, as most queues have it, and on several, as Duly has them.

On one: an insert that a worker can find, and a loop that in one statement deletes what is done and marks the
next. On several, narrow ones around a wide one: such a loop with a history of what has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import psycopg

from benchmarks import place
from benchmarks.raw import BATCH, CONNECTIONS
from benchmarks.slots import given

SCHEMA: Final = (
    "create table job (id bigint generated always as identity primary key, queue text not null,"
    " task text not null, arguments text not null)",
    "create table ready (lane integer not null, ready_at bigint not null, id bigint not null,"
    " primary key (lane, ready_at, id))",
    "create table running (id bigint primary key, worker integer not null, epoch integer not null)",
    "create table ended (id bigint primary key, finished_at bigint not null, worker integer not null)",
    "create table effect (number integer not null)",
    "create table single (id bigint generated always as identity primary key, queue text not null,"
    " task text not null, arguments jsonb not null, status smallint not null default 0,"
    " attempt integer not null default 0, run_at timestamptz not null default now(), done_at timestamptz)",
    "create index single_ready on single (queue, run_at, id) where status = 0",
)
INSERT: Final = "insert into single (queue, task, arguments) values ('q', 'noop', %s) returning id"
COPY: Final = "copy job (queue, task, arguments) from stdin"
FILL: Final = """
with made as (
    insert into job (queue, task, arguments) select 'q', 'noop', number::text from unnest(%s::int[]) as number
    returning id)
insert into ready select 1, 0, id from made
"""
FILL_SINGLE: Final = """
insert into single (queue, task, arguments)
select 'q', 'noop', number::text::jsonb from unnest(%s::int[]) as number
"""
TURN_SINGLE: Final = f"""
with done as (
    delete from single where id = any ($1::bigint[])
), next as (
    select id from single where queue = 'q' and status = 0 and run_at <= now()
    order by run_at, id limit {BATCH} for update skip locked
)
update single set status = 1, attempt = attempt + 1 from next where single.id = next.id
returning single.id, single.arguments, single.task, single.attempt
"""
TURN: Final = f"""
with gone as (
    delete from running where id = any ($1::bigint[]) returning id, worker
), history as (
    insert into ended select id, (extract(epoch from clock_timestamp()) * 1000000)::bigint, worker from gone
), picked as materialized (
    select ctid as place, id from ready where lane = 1 and ready_at = 0 and id > $2
    order by id limit {BATCH} for update skip locked
), taken as (
    delete from ready where ctid = any (array(select place from picked))
), lent as (
    insert into running select id, 1, 1 from picked
)
select picked.id, job.arguments
from picked cross join lateral (select arguments from job where job.id = picked.id offset 0) as job
order by picked.id
"""
EFFECT: Final = "insert into effect values ($1)"
END: Final = """
with gone as (delete from running where id = $1 returning id, worker)
insert into ended select id, (extract(epoch from clock_timestamp()) * 1000000)::bigint, worker from gone
"""


class Peer:
    packages = ("psycopg", "asyncpg")
    settings = f"psycopg for inserts, asyncpg for loops, batches of {BATCH}"

    def __init__(self) -> None:
        self.task = os.environ.get(place.TASK, "")

    def setup(self) -> None:
        with psycopg.connect(place.url()) as connection:
            for statement in SCHEMA:
                connection.execute(statement.encode())

    def open(self) -> None:
        self.connection = psycopg.connect(place.url(), autocommit=True, prepare_threshold=1)
        self.cursor = self.connection.cursor()

    def close(self) -> None:
        self.connection.close()

    def enqueue(self, number: int) -> None:
        if self.task == "wake":
            self.cursor.execute("select pg_notify('bell', %s)", (str(number),))
        else:
            self.cursor.execute(INSERT, (str(number),)).fetchone()

    def bulk(self, numbers: Sequence[int]) -> None:
        with self.connection.transaction(), self.cursor.copy(COPY) as copy:
            for number in numbers:
                copy.write_row(("q", "noop", str(number)))

    def fill(self, numbers: Sequence[int]) -> None:
        self.cursor.execute(FILL_SINGLE if is_on_one_table() else FILL, (list(numbers),))

    def worker(self) -> None:
        works = {"wake": wake, "effect": have_effects}
        asyncio.run(works.get(self.task, drain_one_table if is_on_one_table() else drain)())


def is_on_one_table() -> bool:
    return place.variant() == "one table"


async def drain_one_table() -> None:
    stamp = given().stamper()
    connection: Any = await asyncpg.connect(place.url())
    turn, ids = await connection.prepare(TURN_SINGLE), list[int]()
    while True:
        rows = await turn.fetch(ids)
        for row in rows:
            stamp(int(row[1]))
        ids = [row[0] for row in rows]
        if not rows:
            await asyncio.sleep(0.001)


async def connect() -> Any:
    connection: Any = await asyncpg.connect(place.url())
    await connection.execute("set enable_seqscan = off; set enable_bitmapscan = off")
    return connection


async def drain() -> None:
    stamp, connection = given().stamper(), await connect()
    turn, after, ids = await connection.prepare(TURN), 0, list[int]()
    while True:
        rows = await turn.fetch(ids, after)
        for row in rows:
            stamp(int(row[1]))
        ids = [row[0] for row in rows]
        after = ids[-1] if ids else 0
        if not rows:
            await asyncio.sleep(0.001)


async def have_effects() -> None:
    amount = 1 if place.variant() == "alone" else CONNECTIONS
    await asyncio.gather(*[have_effects_on(await connect()) for _ in range(amount)])


async def have_effects_on(connection: Any) -> None:
    stamp, turn = given().stamper(), await connection.prepare(TURN)
    effect, end = await connection.prepare(EFFECT), await connection.prepare(END)
    while rows := await turn.fetch([], 0):
        for job, arguments in rows:
            async with connection.transaction():
                await effect.fetch(int(arguments))
                await end.fetch(job)
            stamp(int(arguments))


async def wake() -> None:
    stamp, connection = given().stamper(), await connect()
    await connection.add_listener("bell", lambda *told: stamp(int(told[3])))
    await asyncio.Event().wait()
