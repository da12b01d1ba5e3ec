"""A line of the intake that cannot be read, in a store that has one, is set aside and blocks nobody."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.contract.arrange import (
    KEY,
    beat,
    cancel,
    claim_all,
    claim_one,
    find,
    ids,
    put_one,
    request,
    settle,
    start,
)
from tests.contract.stores import STORES

from duly.lifecycle import Settled
from duly.stores.contract import Selection, Store
from duly.stores.drive import Operation, Row, Statement, Steps
from duly.stores.tables.requests import FORMAT, encode
from duly.testing import VirtualClock

WRITE: Final = {
    "sqlite": "insert into duly_intake (id, key, offered_at, request) values (:id, :key, 0, :request)",
    "postgres": "insert into {schema}.intake (id, key, offered_at, request) "
    "values (%(id)s, %(key)s, 0, %(request)s)",
}
READ: Final = {
    "sqlite": "select id, set_aside from duly_intake order by number",
    "postgres": "select id, set_aside from {schema}.intake order by number",
}


def written(**changed: Any) -> str:
    return json.dumps(json.loads(encode(request(KEY))) | changed)


def without(name: str) -> str:
    values = json.loads(encode(request(KEY)))
    del values[name]
    return json.dumps(values)


BAD: Final = {
    "a word of newer code": written(overlap="queue_two"),
    "no JSON": "Dear diary",
    "no object": "[1, 2]",
    "a deep nest": "[" * 100_000,
    "a missing field": without("guard"),
    "a number for a name": written(task=7),
    "no queue": written(queue=None),
    "a text for a number": written(priority="high"),
    "a priority beyond the column": written(priority=2**70),
    "a count beyond the column": written(per_key=2**70),
    "a time nobody can say": written(run_after=2**62),
    "a tick nobody can say": written(tick=2**62),
    "a delay nobody can wait": written(delay=2**61),
    "a length beyond the column": written(keep=[2**63, 1]),
    "half a character": written(context='{"a": "\ud83d"}'),
    "half a character in the chain": written(serial="\ud83d"),
    "a guard of the wrong shape": written(guard=5),
    "a guard nobody can wait for": written(guard=[2**61, False]),
}


@pytest.fixture(params=list(WRITE))
def name(request: pytest.FixtureRequest) -> str:
    """The stores with an intake; the others place an offer at once."""
    return str(request.param)


@pytest.fixture
def store(name: str, tmp_path: Path, clock: VirtualClock) -> Iterator[Store]:
    made = STORES[name](tmp_path, clock)
    made.open()
    yield made
    made.close()


def perform(store: Store, text: str, **parameters: str) -> list[Row]:
    def steps() -> Steps[list[Row]]:
        return list((yield Statement(text, parameters)))

    return store.run(Operation("scribble", steps))


def write_down(name: str, store: Store, text: str, *, job_id: str = "bad") -> None:
    perform(store, f"{WRITE[name]} returning id", id=job_id, key=KEY, request=text)


def left(name: str, store: Store) -> list[Row]:
    return perform(store, READ[name])


@pytest.mark.parametrize("text", BAD.values(), ids=list(BAD))
def test_a_line_that_cannot_be_read_stays_and_the_others_are_placed(
    name: str, store: Store, text: str
) -> None:
    before, after = request("before"), request("after")
    store.run(store.offer([before]))
    write_down(name, store, text)
    store.run(store.offer([after]))

    assert ids(claim_all(store)) == [before.id, after.id]
    assert left(name, store) == [("bad", FORMAT)]


@pytest.mark.parametrize("field", ["id", "task", "queue", "key", "serial", "arguments", "context"])
def test_a_line_with_a_zero_character_blocks_nobody(name: str, store: Store, field: str) -> None:
    write_down(name, store, written(**{field: "a\0b"}))
    good = request("good")
    store.run(store.offer([good]))

    assert good.id in ids(claim_all(store))


def test_no_operation_fails_for_a_line_that_cannot_be_read(name: str, store: Store) -> None:
    running = start(store, request("other"))
    write_down(name, store, BAD["a word of newer code"])

    assert put_one(store, request(KEY)).id != "bad"
    assert beat(store, running).lost == frozenset()
    assert settle(store, running) is Settled.SETTLED
    assert not [job for job in find(store, Selection(key=KEY)) if job.id == "bad"]
    assert find(store, Selection(ids=("bad",))) == []
    assert claim_one(store).key == KEY
    assert store.run(store.prune(10)) == 0
    assert left(name, store) == [("bad", FORMAT)]


def test_why_it_was_set_aside_is_told_once(name: str, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    write_down(name, store, BAD["a word of newer code"])
    write_down(name, store, written(arguments={"password": "hunter2"}), job_id="worse")

    with caplog.at_level(logging.ERROR, f"duly.{name}"):
        claim_all(store)
        claim_all(store)

    first, second = (record.getMessage() for record in caplog.records)
    assert "'queue_two' is not a valid Overlap" in first
    assert "worse" in second
    assert "arguments is of type dict" in second
    assert "hunter2" not in caplog.text


def test_older_code_leaves_alone_what_newer_code_could_not_read(
    name: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    write_down(name, store, BAD["no JSON"])
    table = "duly_intake" if name == "sqlite" else "{schema}.intake"
    perform(store, f"update {table} set set_aside = {FORMAT + 1} returning id")

    claim_all(store)

    assert left(name, store) == [("bad", FORMAT + 1)]
    assert caplog.records == []


def test_an_order_for_a_line_that_cannot_be_read_harms_nothing(name: str, store: Store) -> None:
    write_down(name, store, BAD["no JSON"])
    wanted = put_one(store, request(KEY))

    assert cancel(store, wanted.id).took_effect
    assert left(name, store) == [("bad", FORMAT)]
