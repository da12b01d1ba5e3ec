"""The schema: any name, made once by however many start, and in step with the code."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import KEY, claim, find, put, request, settle

from duly.errors import SchemaMismatch
from duly.job import FINISHED, Delivery, Overlap, Wish
from duly.lifecycle import Settled
from duly.stores.contract import WorkerCard
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.driver import Driver
from duly.stores.postgres.migrate import shipped
from duly.stores.postgres.operations import Operations
from duly.stores.tables.migrations import Migration, parse

ODD = ['We"ird -- x', "Größe; drop", "it's 100% %s {schema}{literal}", "select"]


def drop(url: str, namespace: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(namespace)))


@pytest.fixture
def fresh(url: str) -> Iterator[str]:
    """A schema that does not exist yet, and that no other process of this test run uses."""
    name = f"fresh_{os.getpid()}"
    yield name
    drop(url, name)


@pytest.mark.parametrize("namespace", ODD)
def test_any_name_will_do(url: str, namespace: str) -> None:
    namespace = f"{namespace} {os.getpid()}"
    store = PostgresStore(url, namespace=namespace)
    put(store, request(KEY), request())

    lent = claim(store)
    answers = settle(store, *lent)
    bell = store.doorbell()
    store.ring()

    assert answers == [Settled.SETTLED] * 2
    bell.close()
    store.close()
    drop(url, namespace)


def test_two_namespaces_in_one_database_do_not_meet(url: str, store: PostgresStore, fresh: str) -> None:
    elsewhere = PostgresStore(url, namespace=fresh)
    put(elsewhere, request(KEY))

    assert claim(store) == []
    elsewhere.close()


def test_many_that_start_at_once_make_the_schema_once(url: str, fresh: str) -> None:
    stores = [PostgresStore(url, namespace=fresh) for _ in range(8)]
    errors: list[Exception] = []

    def start(store: PostgresStore) -> None:
        try:
            put(store, request())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(claim(stores[0])) == 8
    for store in stores:
        store.close()


def test_what_is_pending_can_be_asked_without_changing_anything(url: str, fresh: str) -> None:
    store = PostgresStore(url, namespace=fresh)

    before = store.pending()
    twice = store.pending()
    store.open()

    assert before == twice == [step.title for step in shipped()]
    assert store.pending() == []
    store.close()


# --- versions of the code side by side ----------------------------------------------------------

CARD = WorkerCard("w1", "w1", "host", 1, datetime(2026, 11, 16, tzinfo=UTC))
ADDS = parse("0900_adds.sql", "alter table {schema}.tally add column comment text;")
TAKES = parse("0901_takes.sql", "-- oldest code: 901\nalter table {schema}.tally drop column comment;")


def driver(url: str, namespace: str, *extra: Migration) -> Driver:
    return Driver(url, namespace=namespace, operations=Operations(None), migrations=(*shipped(), *extra))


def test_newer_code_adds_by_itself_and_older_code_goes_on(url: str, fresh: str) -> None:
    old = PostgresStore(url, namespace=fresh)
    old.open()

    new = driver(url, fresh, ADDS)
    new.open()

    assert new.pending() == []
    put(old, request())
    old.check_schema()
    assert old.run(old.renew(CARD, [], timedelta(seconds=30))).is_at_home
    old.close()
    new.close()


def test_what_takes_something_away_waits_for_a_word_and_then_stops_older_code(url: str, fresh: str) -> None:
    old = PostgresStore(url, namespace=fresh)
    old.open()
    new = driver(url, fresh, ADDS, TAKES)
    new.open()
    pending = new.pending()

    migrated = new.migrate()

    assert pending == migrated == ["0901_takes"]
    with pytest.raises(SchemaMismatch, match="Upgrade duly"):
        old.check_schema()
    assert not old.run(old.renew(CARD, [], timedelta(seconds=30))).is_at_home
    old.close()
    new.close()


def test_a_migration_that_fails_leaves_nothing_behind(url: str, fresh: str) -> None:
    broken = parse("0900_broken.sql", "create table {schema}.half (id int); select no_such_function();")
    with pytest.raises(Exception, match="no_such_function"):
        driver(url, fresh, broken).open()

    store = PostgresStore(url, namespace=fresh)
    assert store.pending() == [step.title for step in shipped()]
    store.open()
    store.close()


# --- what the tables allow ----------------------------------------------------------------------


ALLOWED = """
select pg_get_constraintdef(oid) from pg_constraint
where contype = 'c' and connamespace = %(schema)s::regnamespace
union all
select format('%%s %%L', typname, enumlabel) from pg_enum join pg_type on pg_type.oid = enumtypid
where typnamespace = %(schema)s::regnamespace
"""


def test_the_tables_allow_what_the_lifecycle_knows_and_nothing_else(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url) as admin:
        rows = admin.execute(ALLOWED, {"schema": f'"{store.describe()["schema name"]}"'}).fetchall()
    text = " ".join(definition for (definition,) in rows)

    for word in (*FINISHED, *Overlap, *Delivery, *Wish):
        assert f"'{word}'" in text
    assert text.count("overlap '") == len(Overlap)
    assert text.count("delivery '") == len(Delivery)


def test_numbers_beyond_32_and_53_bits_are_kept(store: PostgresStore, url: str, schema: str) -> None:
    generations: list[int] = []
    for start in (2**31 - 3, 2**53 - 3, 2**62):
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("select setval(%s, %s)", (f"{schema}.generation", start))
        wanted = [request() for _ in range(6)]
        put(store, *wanted)
        lent = claim(store)
        generations += [got.generation for got in lent]
        assert settle(store, *lent) == [Settled.SETTLED] * 6
        assert len(find(store, *(one.id for one in wanted))) == 6

    assert generations == sorted(set(generations))


def test_a_key_longer_than_an_index_allows_is_kept(store: PostgresStore) -> None:
    long = "k" * 20_000 + "ü"
    put(store, request(long))

    [kept] = put(store, request(long))

    assert kept.decision == "kept"
    assert [got.key for got in claim(store)] == [long]


def test_a_job_deleted_by_hand_is_lost_and_nothing_worse(store: PostgresStore, url: str, schema: str) -> None:
    put(store, request(), request(KEY))
    lent = claim(store)
    with psycopg.connect(url, autocommit=True) as admin:
        for table in ("running", "job", "standing"):
            admin.execute(sql.SQL("delete from {}").format(sql.Identifier(schema, table)))

    assert settle(store, *lent) == [Settled.LOST, Settled.LOST]
    put(store, request(KEY))
    assert len(claim(store)) == 1


def test_a_request_may_be_due_long_before_what_was_lent(store: PostgresStore) -> None:
    put(store, *(request() for _ in range(30)))
    claim(store, limit=10)
    early = replace(request(), run_after=claim(store, limit=1)[0].due.replace(year=1990))
    put(store, early)

    assert [got.id for got in claim(store, limit=1)] == [early.id]
