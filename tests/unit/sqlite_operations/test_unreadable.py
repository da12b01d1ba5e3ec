"""A line of the intake that this code cannot read harms nobody else, and waits for code that can."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sqlite_operations.arrange import SECOND, ask, done, lend, request
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Clash, Delivery, Overlap, Request
from duly.stores.contract import Cancel, Page, Selection, WorkerCard
from duly.stores.sqlite.operations import intake
from duly.stores.tables.requests import FORMAT, decode, encode
from duly.testing import VirtualClock


def written(**changed: Any) -> str:
    return json.dumps(json.loads(encode(request(key="bad"))) | changed)


def without(name: str) -> str:
    values = json.loads(encode(request(key="bad")))
    del values[name]
    return json.dumps(values)


BAD = {
    "a word of newer code": written(overlap="queue_two"),
    "no JSON": "Dear diary",
    "no object": "[1, 2]",
    "a deep nest": "[" * 100_000,
    "a missing field": without("guard"),
    "a number for a name": written(task=7),
    "no queue": written(queue=None),
    "a text for a number": written(priority="high"),
    "a number beyond the column": written(priority=2**70),
    "a time nobody can say": written(run_after=2**62),
    "a delay nobody can wait": written(delay=2**61),
    "a length beyond the column": written(keep=[2**63, 1]),
    "half a character": written(context='{"a": "\ud83d"}'),
    "a guard of the wrong shape": written(guard=5),
}


def write_down(store: PlainStore, text: str, *, job_id: str = "bad") -> None:
    line = "insert into duly_intake (id, key, offered_at, request) values (?, 'bad', 0, ?)"
    store.connection.execute(line, (job_id, text))


def left(store: PlainStore) -> list[tuple[str, int]]:
    return store.connection.execute("select id, set_aside from duly_intake order by number").fetchall()


@pytest.fixture(params=BAD.values(), ids=list(BAD))
def bad(request: pytest.FixtureRequest, store: PlainStore) -> str:
    text: str = request.param
    write_down(store, text)
    return text


@pytest.mark.usefixtures("bad")
def test_a_line_that_cannot_be_read_stays_and_the_others_are_placed(store: PlainStore) -> None:
    good = request(key="good")
    store.run(store.offer([good]))

    assert [claim.id for claim in lend(store)] == [good.id]
    assert left(store) == [("bad", FORMAT)]


def _beat(store: PlainStore, clock: VirtualClock) -> None:
    store.run(store.renew(WorkerCard("w1", "w1", "host", 1, clock.now()), [], 30 * SECOND))


def _settle(store: PlainStore, _: VirtualClock) -> None:
    store.run(store.settle("w1", done(lend(store))))


OPERATIONS: dict[str, Callable[[PlainStore, VirtualClock], object]] = {
    "put": lambda store, _: store.run(store.put([request(key="bad")])),
    "claim": lambda store, _: lend(store),
    "begin": lambda store, _: store.run(store.begin([], isolated=False)),
    "renew": _beat,
    "settle": _settle,
    "turn": lambda store, _: store.run(store.turn([], ask())),
    "amend": lambda store, _: store.run(store.amend(Selection(), Cancel())),
    "prune": lambda store, _: store.run(store.prune(10)),
    "find by id": lambda store, _: store.run(store.find(Selection(ids=("bad",)), Page())),
    "find by key": lambda store, _: store.run(store.find(Selection(key="bad"), Page())),
}


@pytest.mark.parametrize("act", OPERATIONS.values(), ids=list(OPERATIONS))
def test_no_operation_fails_for_a_line_that_cannot_be_read(
    store: PlainStore, clock: VirtualClock, act: Callable[[PlainStore, VirtualClock], object]
) -> None:
    write_down(store, BAD["a word of newer code"])

    act(store, clock)

    assert [job_id for job_id, _ in left(store)] == ["bad"]


def test_it_is_read_and_told_once(store: PlainStore, caplog: pytest.LogCaptureFixture) -> None:
    write_down(store, BAD["a word of newer code"])
    write_down(store, BAD["no JSON"], job_id="worse")

    with caplog.at_level(logging.ERROR, "duly.sqlite"):
        lend(store)
        lend(store)

    first, second = (record.getMessage() for record in caplog.records)
    assert "bad" in first
    assert "'queue_two' is not a valid Overlap" in first
    assert "worse" in second


def test_what_a_body_was_to_be_called_with_is_not_told(
    store: PlainStore, caplog: pytest.LogCaptureFixture
) -> None:
    write_down(store, written(arguments={"password": "hunter2"}))

    lend(store)

    assert "arguments is of type dict" in caplog.text
    assert "hunter2" not in caplog.text


def _decode_as_newer_code(text: str) -> Request:
    return decode(text.replace("queue_two", "queue_one"))


def test_newer_code_reads_what_older_code_set_aside(
    store: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = request(key="k")
    write_down(store, encode(wanted).replace("queue_one", "queue_two"), job_id=wanted.id)
    lend(store)
    monkeypatch.setattr(intake, "FORMAT", FORMAT + 1)
    monkeypatch.setattr(intake, "decode", _decode_as_newer_code)

    assert [claim.id for claim in lend(store)] == [wanted.id]
    assert left(store) == []


def test_older_code_leaves_alone_what_newer_code_could_not_read(
    store: PlainStore, caplog: pytest.LogCaptureFixture
) -> None:
    write_down(store, BAD["no JSON"])
    store.connection.execute("update duly_intake set set_aside = ?", (FORMAT + 1,))

    lend(store)

    assert left(store) == [("bad", FORMAT + 1)]
    assert caplog.records == []


def test_lines_set_aside_are_skipped_by_index(store: PlainStore) -> None:
    plan = store.connection.execute(f"explain query plan {intake.SQL['pending']}", {"format": 1}).fetchall()

    assert any("duly_intake_unread (set_aside<?)" in str(step) for step in plan)


@pytest.mark.parametrize(
    "wanted",
    [
        request(key="k", context="\ud83d"),
        request(key="k\ud83d"),
        request(key="k", delay=timedelta.max),
        request(key="k", expires_after=timedelta.max),
    ],
    ids=["context", "key", "delay", "expiry"],
)
def test_a_request_that_could_not_be_placed_is_refused_when_it_is_offered(
    store: PlainStore, wanted: Request
) -> None:
    with pytest.raises((UnicodeEncodeError, OverflowError)):
        store.run(store.offer([wanted]))

    assert left(store) == []


def test_the_number_of_the_format_rises_with_its_vocabulary() -> None:
    """Whoever changes what is written down says so, or older code would set it aside for good."""
    enums = {"clash": Clash, "delivery": Delivery, "overlap": Overlap}
    vocabulary = {name: sorted(words) for name, words in enums.items()}

    assert (FORMAT, vocabulary, sorted(field.name for field in fields(Request))) == (
        1,
        {
            "clash": ["add", "replace", "seed"],
            "delivery": ["at_least_once", "at_most_once", "exactly_once"],
            "overlap": ["allow", "cancel_previous", "queue_all", "queue_one", "skip"],
        },
        sorted(json.loads(encode(request()))),
    )
