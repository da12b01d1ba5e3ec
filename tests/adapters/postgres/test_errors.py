"""What bad input and bad surroundings get: one clear sentence with the remedy, and never the password."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import claim, find, put, request
from tests.servers import PostgresServer

from duly.errors import BadRequest, DefinitionError, SchemaMismatch, StoreUnavailable, UnknownStore
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.postgres import PostgresStore, driver
from duly.stores.postgres.address import parse
from duly.stores.postgres.faults import check_server, is_conflict
from duly.stores.postgres.migrate import shipped
from duly.stores.tables.migrations import parse as parse_migration

SECRET = "pässw0rd"


def own(name: str) -> str:
    """A name that no other process of this test run uses."""
    return f"{name}_{os.getpid()}"


def opened(url: str, namespace: str = "duly") -> PostgresStore:
    store = PostgresStore(url, namespace=namespace)
    store.open()
    return store


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@", 1)


def test_a_server_that_is_not_there_is_told_quickly() -> None:
    began = time.monotonic()

    with pytest.raises(StoreUnavailable, match="cannot be reached") as told:
        opened(f"postgresql://anna:{SECRET}@127.0.0.1:1/shop")

    assert time.monotonic() - began < 30
    assert "Check that the server runs" in str(told.value)
    assert SECRET not in str(told.value)


def test_a_host_that_has_no_address_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        opened("postgresql://no-such-host.invalid/shop")


def test_a_wrong_password_is_told_without_showing_it(own_server: PostgresServer) -> None:
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        admin.execute("create role secured login password 'right'")
    rules = own_server.cluster / "pg_hba.conf"
    rules.write_text("local all secured scram-sha-256\n" + rules.read_text())
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        admin.execute("select pg_reload_conf()")
    url = own_server.url.replace("postgres@", f"secured:{SECRET}@", 1)

    with pytest.raises(StoreUnavailable, match="password authentication failed") as told:
        opened(url)

    assert "Correct the user or the password" in str(told.value)
    assert SECRET not in str(told.value)
    assert "secured:***@" in str(told.value)


def test_a_database_that_does_not_exist_is_told(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="Create the database"):
        opened(url.replace("/postgres?", "/nowhere?"))


def test_a_role_without_rights_is_told_what_to_grant(url: str, plain_role: str) -> None:
    with pytest.raises(StoreUnavailable, match="Grant the role CREATE on the database"):
        opened(as_role(url, plain_role), "not_made_yet")


def test_a_role_with_rights_on_the_tables_alone_can_work(
    url: str, plain_role: str, store: PostgresStore, schema: str
) -> None:
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(plain_role)}
    with psycopg.connect(url, autocommit=True) as admin:
        for grant in (
            "grant usage on schema {schema} to {role}",
            "grant all on all tables in schema {schema} to {role}",
            "grant all on all sequences in schema {schema} to {role}",
        ):
            admin.execute(sql.SQL(grant).format(**names))
    modest = opened(as_role(url, plain_role), schema)

    put(modest, request())

    assert len(claim(modest)) == 1
    modest.close()


@pytest.mark.parametrize(
    "granted",
    [
        [],
        ["usage on schema {schema}"],
        ["usage on schema {schema}", "select on all tables in schema {schema}"],
    ],
    ids=["nothing", "the schema", "reading"],
)
def test_a_role_that_may_not_use_the_tables_is_told_what_to_grant(
    url: str, plain_role: str, store: PostgresStore, schema: str, granted: list[str]
) -> None:
    put(store, request())
    with psycopg.connect(url, autocommit=True) as admin:
        for right in granted:
            admin.execute(f"grant {right.format(schema=schema)} to {plain_role}".encode())
    modest = PostgresStore(as_role(url, plain_role), namespace=schema)

    with pytest.raises(StoreUnavailable, match=r"permission denied .* grant the role USAGE on the schema"):
        put(modest, request())
    modest.close()


def test_a_standby_may_be_read_and_says_where_to_write(standby: PostgresServer) -> None:
    store = opened(standby.url)

    assert [job.task for job in find(store)] == ["send"]
    for act in (lambda: put(store, request()), lambda: claim(store)):
        with pytest.raises(StoreUnavailable, match="point the URL at the primary"):
            act()
    store.close()


def test_a_standby_has_nothing_to_migrate_and_cannot(
    standby: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = parse_migration("0900_adds.sql", "alter table {schema}.tally add column note text;")
    monkeypatch.setattr(driver, "shipped", lambda: (*shipped(), later))

    assert PostgresStore(standby.url).pending() == ["0900_adds"]
    with pytest.raises(StoreUnavailable, match="point the URL at the primary"):
        opened(standby.url)


def test_a_url_that_asks_for_a_primary_is_not_taken_to_a_standby(standby: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match="point the URL at the primary"):
        opened(f"{standby.url}&target_session_attrs=read-write")


def test_a_read_only_server_is_told(url: str, plain_role: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for text in (
            "grant create on database postgres to {}",
            "alter role {} set default_transaction_read_only = on",
        ):
            admin.execute(sql.SQL(text).format(sql.Identifier(plain_role)))

    with pytest.raises(StoreUnavailable, match="point the URL at the primary"):
        opened(as_role(url, plain_role), "not_made_yet")


def test_settings_of_the_database_do_not_change_what_is_promised(
    url: str, store: PostgresStore, schema: str
) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create role {own('odd')} superuser login".encode())
        for setting in (
            "default_transaction_isolation = 'serializable'",
            "synchronous_commit = off",
            "statement_timeout = '300ms'",
            "default_transaction_read_only = on",
            "timezone = 'Australia/Lord_Howe'",
            "search_path = ''",
            "datestyle = 'SQL, DMY'",
        ):
            admin.execute(f"alter role {own('odd')} set {setting}".encode())
    odd = opened(as_role(url, own("odd")), schema)

    put(odd, request("key"), request())
    lent = claim(odd)

    odd.close()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"drop role {own('odd')}".encode())
    assert len(lent) == 2


def test_a_schema_that_vanished_is_told(store: PostgresStore, url: str) -> None:
    doomed = opened(url, own("doomed"))
    put(doomed, request())
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"drop schema {own('doomed')} cascade".encode())

    with pytest.raises(SchemaMismatch, match="duly migrate"):
        put(doomed, request())
    doomed.close()


def test_without_the_driver_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from duly.errors import MissingExtra\n"
        "try:\n    import duly.stores.postgres\n"
        "except MissingExtra as error:\n    print(error)"
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert 'pip install "duly[postgres]"' in told


def test_an_old_server_and_one_that_cannot_hold_every_text_are_refused() -> None:
    address = parse("postgresql://anna:secret@db/shop")

    with pytest.raises(StoreUnavailable, match="PostgreSQL 12; Duly needs 13"):
        check_server(120005, "UTF8", address)
    with pytest.raises(StoreUnavailable, match="ENCODING 'UTF8'"):
        check_server(150005, "LATIN1", address)
    check_server(130000, "UTF8", address)


def test_an_operation_that_the_server_cancelled_before_its_time_was_up_is_tried_again(
    store: PostgresStore,
) -> None:
    texts = ["select pg_cancel_backend(pg_backend_pid())", "select 7"]

    def steps() -> Steps[int]:
        ((number,),) = yield Statement(texts.pop(0))
        return int(number)

    assert store.run(Operation("look", steps)) == 7


def test_a_statement_whose_time_was_up_is_not_taken_for_a_conflict(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set statement_timeout to 1")
        with pytest.raises(psycopg.errors.QueryCanceled) as raised:
            connection.execute("select pg_sleep(3600)")

    assert not is_conflict(raised.value)


def test_a_value_too_large_for_its_column_is_a_bad_request(store: PostgresStore) -> None:
    with pytest.raises(BadRequest, match="cannot store"):
        put(store, replace(request(), priority=10**6))


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql://db/shop?connections=1", "at least 2"),
        ("postgresql://db/shop?connections=many", "at least 2"),
        ("postgresql://db/shop?pooler=perhaps", "auto or yes"),
    ],
)
def test_an_option_that_cannot_be_is_told_where_it_is_written(url: str, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        parse(url)


def test_a_url_of_another_kind_is_not_taken() -> None:
    with pytest.raises(UnknownStore):
        parse("mysql://db/shop")


@pytest.mark.parametrize("namespace", ["", "x" * 64, "ü" * 32, "nul\0", "pg_duly", "information_schema"])
def test_a_name_that_cannot_be_a_schema_is_refused(url: str, namespace: str) -> None:
    with pytest.raises(DefinitionError, match="namespace="):
        PostgresStore(url, namespace=namespace)
