"""What `@app.react` takes, what it refuses, and which of two definitions is in force."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from duly import DefinitionError
from duly.options import Options
from duly.reactive.reaction import SILENCE, InForce, Reaction, ReactOptions, is_adopted, read_reaction
from duly.reactive.tables import Table, table_of, where_of

OPTIONS = Options(name="receipt", queue_name="mail", priority=5)


def read(**given: Any) -> Reaction:
    options: ReactOptions = {"table": "orders", **given}  # type: ignore[typeddict-item]
    return read_reaction(options, OPTIONS)


def test_a_definition_survives_being_stored() -> None:
    written = read(
        table="sales.orders",
        key=["shop", "number"],
        where="status = 'paid'",
        watch=["status"],
        debounce="1s",
        max_wait="30s",
        existing="ignore",
        on_delete=True,
        cleanup="never",
        version=3,
        on_version_change="reprocess_all",
    )

    assert Reaction.read(written.text) == written
    assert written.table == Table("sales", "orders")
    assert (written.queue, written.priority) == ("mail", 5)


def test_the_wait_is_bounded_without_being_told() -> None:
    assert read(debounce="2s").max_wait == timedelta(seconds=20)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table": 7}, "table is 7"),
        ({"table": "a.b.c"}, "'a.b.c'"),
        ({"table": ""}, "table is ''"),
        ({"key": []}, "key is []"),
        ({"key": ["a", "a"]}, "twice"),
        ({"key": list("abcde")}, "at most 4"),
        ({"watch": "status"}, "['status']"),
        ({"watch": [1]}, "watch is [1]"),
        ({"where": " "}, "where is ' '"),
        ({"where": 5}, "where is 5"),
        ({"debounce": "5s", "max_wait": "1s"}, "max_wait"),
        ({"debounce": "-1s"}, "debounce"),
        ({"existing": "skip"}, "'run', 'ignore'"),
        ({"cleanup": "always"}, "cleanup is 'always'"),
        ({"version": 0}, "version is 0"),
        ({"on_version_change": "all"}, "reprocess_all"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        read(**given)

    assert words in str(refusal.value)


def test_a_table_must_be_named() -> None:
    with pytest.raises(DefinitionError, match="which table"):
        read_reaction({}, OPTIONS)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders", Table(None, "orders")),
        ("sales.orders", Table("sales", "orders")),
        ('"dotted.name"', Table(None, "dotted.name")),
        ('my schema."Or""der"', Table("my schema", 'Or"der')),
        ('Or"der', Table(None, 'Or"der')),
        ("Größe", Table(None, "Größe")),
    ],
)
def test_names_may_need_quoting(text: str, table: Table) -> None:
    assert table_of(text) == table


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_any_name_can_be_said_in_quotes(name: str) -> None:
    quoted = name.replace('"', '""')

    assert table_of(f'"{quoted}"') == Table(None, name)


def test_a_table_of_sqlalchemy_brings_its_names_and_its_key() -> None:
    orders = sqlalchemy.Table(
        "orders",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("shop", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("number", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("status", sqlalchemy.Text),
        schema="sales",
    )

    reaction = read(table=orders, where=orders.c.status == "it's paid")

    assert reaction.table == Table("sales", "orders")
    assert reaction.key == ("shop", "number")
    assert reaction.where == "sales.orders.status = 'it''s paid'"


def test_a_q_of_django_needs_a_model() -> None:
    from django.db.models import Q

    with pytest.raises(DefinitionError, match="must be a model"):
        where_of(Q(status="paid"), "orders")


def in_force(reaction: Reaction, silent_for: timedelta = timedelta(0)) -> InForce:
    return InForce(reaction.mark, reaction.version, silent_for)


def test_a_definition_never_seen_before_takes_over_once() -> None:
    old, new = read(where="a"), read(where="b")

    assert is_adopted(old, None, is_new=True)
    assert is_adopted(new, in_force(old), is_new=True)
    assert not is_adopted(old, in_force(new), is_new=False)
    assert not is_adopted(new, in_force(new), is_new=False)


def test_a_higher_version_wins_and_a_lower_one_does_not() -> None:
    first, second = read(version=1), read(version=2)

    assert is_adopted(second, in_force(first), is_new=False)
    assert not is_adopted(first, in_force(second), is_new=True)


def test_after_a_rollback_the_older_definition_counts_again() -> None:
    old, new = read(where="a"), read(where="b")

    assert is_adopted(old, in_force(new, SILENCE + timedelta(seconds=1)), is_new=False)


def test_what_rows_must_be_looked_at_again_for() -> None:
    assert read(where="a").digest != read(where="b").digest
    assert read(watch=["a"]).digest != read().digest
    assert read(debounce="1s").digest == read().digest
    assert read(debounce="1s").mark != read().mark
