"""`duly migrate` on a real server: what it says, what it leaves alone, and with which code it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from duly.cli import main
from duly.stores.postgres import PostgresStore, driver
from duly.stores.postgres.migrate import shipped
from duly.stores.tables.migrations import parse

Command = Callable[..., tuple[int, str]]

TAKES = parse("0901_takes.sql", "-- oldest code: 901\nalter table {schema}.tally drop column refused_note;")
ADDS = parse("0900_adds.sql", "alter table {schema}.tally add column refused_note text;")
FIRST = shipped()[0].title


@pytest.fixture
def fresh(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A schema that does not exist yet, as the settings name it."""
    name = f"command_{os.getpid()}"
    monkeypatch.setenv("DULY_NAMESPACE", name)
    yield name
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))


@pytest.fixture
def migrate(url: str, fresh: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call it, on this server unless told otherwise; answers its code and all it said."""

    def call(*words: str, at: str = url) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["migrate", "--url", at, *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def exists(url: str, schema: str) -> bool:
    with psycopg.connect(url) as admin:
        found = admin.execute("select 1 from pg_namespace where nspname = %s", (schema,)).fetchone()
    return found is not None


def lines(said: str) -> list[str]:
    return said.strip().splitlines()


def test_what_is_pending_is_listed_with_code_1_and_nothing_is_made(
    migrate: Command, url: str, fresh: str
) -> None:
    code, said = migrate("--check")

    assert code == 1
    assert lines(said)[1:] == [f"pending: {step.title}" for step in shipped()]
    assert not exists(url, fresh)


def test_it_applies_what_is_pending_and_then_there_is_nothing_more_to_do(migrate: Command) -> None:
    applied, said = migrate()
    checked, then = migrate("--check")
    again, at_last = migrate()

    assert (applied, checked, again) == (0, 0, 0)
    assert f"applied: {FIRST}" in lines(said)
    assert lines(then)[1:] == lines(at_last)[1:] == ["up to date"]


def test_what_takes_something_away_is_pending_until_it_is_asked_for(
    migrate: Command, url: str, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate()
    monkeypatch.setattr(driver, "shipped", lambda: (*shipped(), ADDS, TAKES))
    newer = PostgresStore(url, namespace=fresh)
    newer.open()  # a start applies what adds
    newer.close()

    before = migrate("--check")
    asked = migrate()
    after = migrate("--check")

    assert (before[0], lines(before[1])[1:]) == (1, ["pending: 0901_takes"])
    assert (asked[0], lines(asked[1])[1:]) == (0, ["applied: 0901_takes"])
    assert (after[0], lines(after[1])[1:]) == (0, ["up to date"])


def test_an_older_version_is_told_to_upgrade(migrate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(driver, "shipped", lambda: (*shipped(), ADDS, TAKES))
        migrate()

    code, said = migrate()

    assert code == 3
    assert "Upgrade duly" in said


@pytest.mark.parametrize("words", [(), ("--check",)], ids=["migrate", "check"])
def test_a_server_that_is_not_there_is_one_line_and_code_3(migrate: Command, words: tuple[str, ...]) -> None:
    code, said = migrate(*words, at="postgresql://anna:hunter2@127.0.0.1:1/shop")

    assert code == 3
    assert len(lines(said)) == 1
    assert "Check that the server runs" in said
    assert "hunter2" not in said


def test_a_role_without_rights_may_look_and_is_told_what_to_grant(
    migrate: Command, url: str, fresh: str, plain_role: str
) -> None:
    plain = url.replace("postgres@", f"{plain_role}@", 1)

    looked = migrate("--check", at=plain)
    tried = migrate(at=plain)

    assert looked[0] == 1
    assert tried[0] == 3
    assert "Grant the role CREATE on the database" in tried[1]
    assert not exists(url, fresh)
