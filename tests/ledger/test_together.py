"""Whatever a body writes, and however it says it, is undone with it: nothing is committed by itself."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import sessionmaker
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import TABLE, Home

from duly import DefinitionError, Ledger, Receipt, exactly_once
from duly.errors import TransactionEnded
from duly.ledger.sqlite.words import ends_transaction, may_write

WAYS = {
    "a CTE": [f"with q(a, b) as (select 'rent', '--') insert into {TABLE} select a, b from q"],
    "a definition": [f"create table copy as select * from {TABLE}", f"drop table {TABLE}"],
    "a savepoint": ["savepoint part", f"insert into {TABLE} values ('rent', 'x')", "release part"],
    "a comment": [f"/* why */ -- so\nreplace into {TABLE} values ('rent', 'x')"],
}


class Failed(Exception):
    """Raised by a body after it wrote."""


def alchemy_url(home: Home) -> str:
    return home.url.replace("postgresql://", "postgresql+psycopg://")


@pytest.mark.usefixtures("sqlite_only")
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("place", ["url", "engine", "autocommit", "session"])
def test_a_failed_body_leaves_nothing_behind(
    home: Home, open_ledger: OpenLedger, way: str, place: str
) -> None:
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if place == "autocommit" else {}
    engine = create_engine(alchemy_url(home), **options)
    places: dict[str, Any] = {"url": None, "session": sessionmaker(engine)}
    ledger = open_ledger(places.get(place, engine))

    @exactly_once(ledger=ledger, name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        for statement in WAYS[way]:
            receipt.connection.execute(statement if place == "url" else text(statement))
        raise Failed

    with pytest.raises(Failed):
        pay(execution_id="1")

    assert home.effects() == []
    engine.dispose()


@pytest.mark.usefixtures("sqlite_only")
@pytest.mark.parametrize("place", ["url", "engine"])
@pytest.mark.parametrize("word", ["COMMIT", " end", "-- so\nrollback", "cursor().executescript"])
def test_sql_does_not_end_the_transaction_either(
    home: Home, open_ledger: OpenLedger, place: str, word: str
) -> None:
    engine = create_engine(alchemy_url(home))
    ledger = open_ledger(engine if place == "engine" else None)

    @exactly_once(ledger=ledger, name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        said: Any = str if place == "url" else text
        receipt.connection.execute(said(f"insert into {TABLE} values ('rent', 'x')"))
        if word.startswith("cursor") and place == "url":
            receipt.connection.cursor().executescript("select 1")
        receipt.connection.execute(said("commit" if word.startswith("cursor") else word))

    with pytest.raises(TransactionEnded, match="return to commit"):
        pay(execution_id="1")

    assert home.effects() == []
    engine.dispose()


@pytest.mark.usefixtures("sqlite_only")
def test_a_body_that_only_reads_keeps_nobody_out(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        receipt.connection.execute("pragma foreign_keys = on")
        receipt.connection.execute(f"with q as (select * from {TABLE}) select * from q").fetchall()
        with home.connect() as other:
            other.execute(home.insert, ("rent", "other"))

    pay(execution_id="1")

    assert home.effects() == [("rent", "other")]


@pytest.mark.usefixtures("postgres_only")
def test_an_engine_that_commits_each_statement_is_refused(home: Home, open_ledger: OpenLedger) -> None:
    engine = create_engine(alchemy_url(home), isolation_level="AUTOCOMMIT")

    @exactly_once(ledger=open_ledger(engine), name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        receipt.connection.execute(text(f"insert into {home.namespace}.{TABLE} values ('rent', 'x')"))

    with pytest.raises(DefinitionError, match="AUTOCOMMIT"):
        pay(execution_id="1")

    assert home.effects() == []
    engine.dispose()


@pytest.mark.parametrize("kind", [None, sessionmaker])
def test_an_open_savepoint_is_no_way_to_commit(home: Home, open_ledger: OpenLedger, kind: Any) -> None:
    engine: Engine = create_engine(alchemy_url(home))
    table = TABLE if home.is_sqlite else f"{home.namespace}.{TABLE}"

    @exactly_once(ledger=open_ledger(kind(engine) if kind else engine), name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        receipt.connection.begin_nested()
        receipt.connection.execute(text(f"insert into {table} values ('rent', 'x')"))
        receipt.connection.commit()

    with pytest.raises(TransactionEnded, match="commit"):
        pay(execution_id="1")

    assert home.effects() == []
    engine.dispose()


def test_a_file_named_by_a_uri_is_refused() -> None:
    with pytest.raises(DefinitionError, match="URI"):
        Ledger(create_engine("sqlite:///file:app.db?uri=true"))


@pytest.mark.parametrize(
    ("statement", "writes", "ends"),
    [
        ("select 1", False, False),
        ("WITH q AS (SELECT 1) DELETE FROM t", True, False),
        ("with q as (select 1) select * from q", False, False),
        ("alter table t add column c", True, False),
        ("", False, False),
        (";;/* open", False, False),
        ("rollback to part", False, False),
        ("Rollback", False, True),
        ("commit;", False, True),
    ],
)
def test_statements_are_known_by_their_words(statement: str, writes: bool, ends: bool) -> None:
    assert may_write(statement) is writes
    assert ends_transaction(statement) is ends
