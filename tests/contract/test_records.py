"""records: small named texts, each kind for itself."""

from __future__ import annotations

import pytest

from duly.stores.contract import Store


def test_a_record_is_read_back(store: Store) -> None:
    store.run(store.record("schedule", "nightly", '{"cron":"0 2 * * *"}'))

    assert store.run(store.records("schedule")) == {"nightly": '{"cron":"0 2 * * *"}'}


def test_a_kind_nobody_wrote_is_empty(store: Store) -> None:
    assert store.run(store.records("schedule")) == {}


def test_a_record_written_again_is_the_later_one(store: Store) -> None:
    store.run(store.record("schedule", "nightly", "first"))
    store.run(store.record("schedule", "nightly", "second"))

    assert store.run(store.records("schedule")) == {"nightly": "second"}


def test_kinds_do_not_meet(store: Store) -> None:
    store.run(store.record("schedule", "nightly", "code"))
    store.run(store.record("overlay", "nightly", "operator"))

    assert store.run(store.records("schedule")) == {"nightly": "code"}
    assert store.run(store.records("overlay")) == {"nightly": "operator"}


def test_a_record_written_as_none_is_gone(store: Store) -> None:
    store.run(store.record("schedule", "nightly", "text"))
    store.run(store.record("schedule", "other", "text"))
    store.run(store.record("schedule", "nightly", None))
    store.run(store.record("schedule", "never there", None))

    assert store.run(store.records("schedule")) == {"other": "text"}


@pytest.mark.parametrize("text", ["", "Grüße 漢字 🎉", "quote ' \" ;--", "x" * 100_000], ids=len)
def test_a_record_keeps_its_text(store: Store, text: str) -> None:
    store.run(store.record("kind", "name", text))

    assert store.run(store.records("kind")) == {"name": text}
