"""The tables, the statements and the vocabulary must say the same."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import fields
from importlib.resources import files

import pytest
from tests.unit.sqlite_operations.driver import SCHEMA, PlainStore

from duly.job import FINISHED, LIVE, State
from duly.lifecycle import MOVES
from duly.stores.sqlite.operations.exchange import PROGRAM
from duly.stores.sqlite.operations.rows import FIELDS, Row
from duly.stores.sqlite.operations.texts import statements

TEXT = SCHEMA.read_text(encoding="utf-8")
FILES = sorted(
    file.name.removesuffix(".sql") for file in files("duly.stores.sqlite").joinpath("sql").iterdir()
)
STATEMENTS = [(name, part) for name in FILES for part in statements(name)]


def _column(name: str) -> str:
    [text] = re.findall(rf"^    {name} .*?(?=^    \w|^\))", TEXT, re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_check_on_the_state_names_every_state_of_the_lifecycle() -> None:
    named = re.findall(r"state = '(\w+)'", _column("state"))

    assert named == list(State)
    assert set(MOVES.values()) <= set(named)


@pytest.mark.parametrize("state", State)
def test_a_job_can_be_in_every_state_of_the_lifecycle(store: PlainStore, state: State) -> None:
    _insert(store, state=state, finished_at=1 if state in FINISHED else None)


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "sleeping", "finished_at": None},
        {"state": "done", "finished_at": None},
        {"state": "waiting", "finished_at": 1},
    ],
)
def test_a_job_can_be_in_no_other_state(store: PlainStore, columns: dict[str, object]) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        _insert(store, **columns)


def _insert(store: PlainStore, **columns: object) -> None:
    values: dict[str, object] = {name: 0 for name in FIELDS if name not in ("finished_at",)} | columns
    texts = {"id", "task", "queue", "nonce", "worker", "key", "serial", "overlap", "delivery"}
    texts |= {"superseded_by", "wish", "reason", "context", "arguments", "progress", "result", "error"}
    values |= dict.fromkeys(texts, "x")
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    store.connection.execute(f"insert into duly_job ({names}) values ({marks})", values)


def test_lists_of_states_in_conditions_are_the_live_ones() -> None:
    everything = TEXT + "".join(statements(name)[part] for name, part in STATEMENTS)

    lists = re.findall(r"state (?:not )?in \(([^)s]+)\)", everything)

    assert lists
    assert {frozenset(re.findall(r"\w+", found)) for found in lists} == {frozenset(LIVE)}


def test_a_row_is_read_and_written_with_the_columns_of_its_class() -> None:
    known = statements("row")
    read = known["load"].partition("select")[2].partition("from")[0]
    also_read = known["load_many"].partition("select")[2].partition("from")[0]
    written = set(re.findall(r"(\w+) = :", known["save"].partition("where")[0]))
    fixed = {"generation", "id", "entered", "task", "created_at", "key", "serial", "per_key", "overlap"}
    fixed |= {"delivery", "perpetual", "keep_done", "keep_failed", "tick"}

    assert tuple(re.findall(r"\w+", read)) == FIELDS == tuple(field.name for field in fields(Row))
    assert read == also_read
    assert written == set(FIELDS) - fixed | {"error_folded"}


@pytest.mark.parametrize(("name", "part"), STATEMENTS)
def test_every_statement_fits_the_tables_and_its_indexes(store: PlainStore, name: str, part: str) -> None:
    store.connection.execute(statements("exchange")["words"])
    store.connection.execute(PROGRAM)
    text = PROGRAM if (name, part) == ("exchange", "program") else statements(name)[part]
    parameters = dict.fromkeys(re.findall(r":(\w+)", text))

    assert store.connection.execute(f"explain {text}", parameters).fetchall()


@pytest.mark.parametrize("name", FILES)
def test_every_file_opens_with_what_it_promises(name: str) -> None:
    text = files("duly.stores.sqlite").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")

    assert text.startswith(("-- " + name, f"-- {name},"))


def test_all_tables_and_indexes_carry_the_prefix_that_namespaces_replace(store: PlainStore) -> None:
    names = [name for (name,) in store.connection.execute("select name from sqlite_master")]

    assert names
    assert all(name.startswith(("duly_", "sqlite_autoindex_duly_")) for name in names)
