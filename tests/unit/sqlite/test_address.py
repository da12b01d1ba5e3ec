"""A URL says which file, how durable and which journal, or what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duly.errors import DefinitionError, UnknownStore
from duly.stores.sqlite.address import Durability, Mode, check_namespace, parse


def test_three_slashes_name_a_file_here() -> None:
    assert parse("sqlite:///duly.db").path == os.path.realpath("duly.db")


def test_four_slashes_name_an_absolute_path() -> None:
    assert parse("sqlite:////var/lib/duly.db").path == "/var/lib/duly.db"


def test_a_percent_sign_spells_a_character_urls_cannot_hold() -> None:
    assert parse("sqlite:////var/what%3F.db").path == "/var/what?.db"


def test_a_link_is_followed_so_that_both_names_share_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    assert parse(f"sqlite:///{tmp_path}/link.db").path == str((tmp_path / "real.db").resolve())


def test_writes_survive_a_power_cut_unless_less_is_asked_for() -> None:
    assert parse("sqlite:///duly.db").durability is Durability.FULL
    assert parse("sqlite:///duly.db?durability=normal").durability is Durability.NORMAL


def test_the_journal_is_chosen_unless_one_is_asked_for() -> None:
    assert parse("sqlite:///duly.db").wanted is None
    assert parse("sqlite:///duly.db?journal=rollback").wanted is Mode.ROLLBACK
    assert parse("sqlite:///duly.db?journal=wal").wanted is Mode.WAL


@pytest.mark.parametrize("url", ["sqlite://:memory:", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused_with_the_store_that_does_it(url: str) -> None:
    with pytest.raises(DefinitionError, match="memory://"):
        parse(url)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("sqlite://duly.db", "sqlite:///duly.db"),
        ("sqlite://", "sqlite:///duly.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:////var/lib/", "names no file"),
        ("sqlite:///duly.db?durability=off", "full or normal"),
        ("sqlite:///duly.db?journal=memory", "wal or rollback"),
        ("sqlite:///duly.db?timeout=5", "durability and journal"),
    ],
)
def test_a_mistake_in_the_url_is_quoted_with_its_remedy(url: str, remedy: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(url)

    assert repr(url) in str(caught.value)
    assert remedy in str(caught.value)


def test_another_scheme_is_another_store() -> None:
    with pytest.raises(UnknownStore):
        parse("postgresql://localhost/duly")


@pytest.mark.parametrize("name", ["duly", "shop", "a", "team_2"])
def test_a_plain_word_is_a_namespace(name: str) -> None:
    assert check_namespace(name) == name


@pytest.mark.parametrize(
    "name", ["", "Shop", "2shop", "shop;drop", "a b", "sqlite", "x" * 32, 'a"b', "schön"]
)
def test_what_could_not_begin_a_table_name_is_no_namespace(name: str) -> None:
    with pytest.raises(DefinitionError):
        check_namespace(name)
