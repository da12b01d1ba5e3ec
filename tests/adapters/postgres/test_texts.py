"""How values travel: arrays as texts made in one sweep, zero characters spelt out, fences read back."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.postgres.arrange import claim, put, request
from tests.servers import postgres_url

from duly.job import Fence
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.operations.arrays import booleans, integers, restored, stored, words
from duly.stores.postgres.operations.fences import new_seed, read, secret

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def echoed(array: str, kind: str) -> list[object]:
    with psycopg.connect(postgres_url()) as connection:
        row = connection.execute(f"select %s::{kind}[]".encode(), (array,)).fetchone()
    assert row is not None
    return list(row[0])


@given(TEXTS)
def test_any_text_comes_back_and_holds_no_zero_meanwhile(text: str) -> None:
    assert "\0" not in stored(text)
    assert restored(stored(text)) == text


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["", None, "null", "NULL"],
        ['"', "\\", '\\"', "{}", "a,b", "'", " space ", "\n\t"],
        ["ü", "漢字", "🎉", "\uffff", "\x01"],
    ],
    ids=range(5),
)
def test_an_array_of_texts_arrives_as_it_was(values: list[str | None]) -> None:
    assert echoed(words(values), "text") == values


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_the_sweep_keeps_texts_apart(values: list[str]) -> None:
    kept = [stored(value) for value in values]

    assert words(kept).count('","') >= len(kept) - 1
    assert words([*kept, None])[1:-1].endswith(",null")


def test_arrays_of_numbers_and_truth_values_arrive_as_they_were() -> None:
    assert echoed(integers([1, None, -(2**63), 2**63 - 1]), "int8") == [1, None, -(2**63), 2**63 - 1]
    assert echoed(booleans([True, False]), "bool") == [True, False]
    assert echoed(integers([]), "int4") == []


@given(st.integers(1, 2**62), st.booleans())
def test_a_fence_is_read_back(generation: int, has_serial: bool) -> None:
    seed = new_seed()
    fence = Fence("job", 3, secret(seed, generation, has_serial=has_serial))

    assert read(fence) == (generation, 3, seed, has_serial)


@pytest.mark.parametrize("nonce", ["", "0" * 16, "unknown", "zz" * 8 + "f1", "0" * 16 + "f"])
def test_a_fence_from_elsewhere_is_nobodys(nonce: str) -> None:
    assert read(Fence("job", 1, nonce)) is None


def test_texts_travel_whatever_encoding_the_environment_prefers(
    schema: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    store = PostgresStore(url, namespace=schema)
    wanted = [request(arguments='[["ü 漢字"],{}]') for _ in range(3)]

    for one in wanted:  # in a conversation, then in messages
        put(store, one)

    assert {lent.arguments for lent in claim(store)} == {'[["ü 漢字"],{}]'}
    store.close()
