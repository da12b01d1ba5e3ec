"""One trace from the request to its runs, by the conventions for messaging."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from tests.metrics.conftest import Spans

from duly import ConditionFailed, Duly, Retry, Run, bind
from duly import context as binding
from duly.cli.logs import JsonFormatter
from duly.job import Request
from duly.testing import virtual
from duly.tracing import carrying, headers_of


@pytest.fixture
def app() -> Duly:
    return Duly("memory://")


def test_a_run_is_a_child_of_the_span_that_asked_for_it(stored: Duly, spans: Spans) -> None:
    @stored.task(name="shop.mail", queue_name="letters")
    def mail(to: str) -> None: ...

    job = mail.using(key="customer:7").enqueue("ann")
    stored.run(burst=True)

    asked, ran = spans()
    assert (asked.name, asked.kind) == ("enqueue shop.mail", SpanKind.PRODUCER)
    assert (ran.name, ran.kind) == ("run shop.mail", SpanKind.CONSUMER)
    assert ran.parent == asked.id
    assert ran.trace == asked.trace
    assert asked.facts == {
        "messaging.system": "duly",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "letters",
        "messaging.message.id": job.id,
        "duly.task": "shop.mail",
        "duly.key": "customer:7",
        "duly.decision": "created",
    }
    assert ran.facts == {
        "messaging.system": "duly",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "letters",
        "messaging.message.id": job.id,
        "duly.task": "shop.mail",
        "duly.key": "customer:7",
        "duly.attempt": 1,
        "duly.epoch": 1,
        "duly.cycle": 0,
    }


def test_a_request_is_part_of_the_callers_trace_and_a_run_is_the_caller_of_what_it_asks_for(
    app: Duly, spans: Spans
) -> None:
    @app.task
    def inner() -> None: ...

    @app.task
    def outer() -> None:
        inner.enqueue()

    with virtual(app) as clock:
        with trace.get_tracer("web").start_as_current_span("POST /orders") as page:
            outer.enqueue()
        clock.run_due()

    by_name = {span.name.rpartition(".")[2]: span for span in spans()}
    parents = [span.parent for span in spans()]
    assert {span.trace for span in spans()} == {page.get_span_context().trace_id}
    assert len(set(parents)) == len(spans()) == 5
    assert by_name["POST /orders"].parent is None


def test_every_try_is_a_span_of_its_own_below_the_same_request(app: Duly, spans: Spans) -> None:
    @app.task(retry=Retry(on=OSError, attempts=2))
    def call(run: Run) -> None:
        if run.attempt == 1:
            raise OSError("the line is dead")

    with virtual(app) as clock:
        call.enqueue()
        clock.run_due()
        clock.advance("1h")
        clock.run_due()

    asked, first, second = spans()
    assert [first.parent, second.parent] == [asked.id] * 2
    assert [span.facts["duly.attempt"] for span in (first, second)] == [1, 2]
    assert (first.status.status_code, first.status.description) == (
        StatusCode.ERROR,
        "OSError: the line is dead",
    )
    assert first.facts["error.type"] == "OSError"
    assert first.events == ["exception"]
    assert second.status.status_code is StatusCode.UNSET


def test_later_cycles_are_traces_of_their_own_with_a_link_to_the_request(stored: Duly, spans: Spans) -> None:
    cycles = iter(range(2))

    @stored.perpetual(every="5m")
    def poll(run: Run) -> None:
        if next(cycles):
            run.stop()
        else:
            run.again(after="0s")

    poll.enqueue()
    stored.run(burst=True)

    asked, first, second = spans()
    assert first.trace == asked.trace
    assert second.trace != asked.trace
    assert second.parent is None
    assert second.links == [asked.id]


def test_an_operators_retry_is_a_trace_of_its_own_with_a_link_to_the_request(
    stored: Duly, spans: Spans
) -> None:
    @stored.task
    def call() -> None:
        raise OSError("the line is dead")

    job = call.enqueue()
    stored.run(burst=True)
    stored.jobs.retry(job)
    stored.run(burst=True)

    asked, first, second = spans()
    assert first.parent == asked.id
    assert (second.parent, second.links) == (None, [asked.id])
    assert second.trace != asked.trace


def test_a_run_that_nobody_asked_for_begins_a_trace(app: Duly, spans: Spans) -> None:
    @app.schedule(every="1m")
    @app.task(name="tidy")
    def tidy() -> None: ...

    with virtual(app) as clock:
        clock.run_due()
        clock.advance("2m")
        clock.run_due()

    assert {span.name for span in spans()} == {"run tidy"}
    assert [span.parent for span in spans()] == [None] * len(spans())


def test_a_skipped_run_is_no_error(app: Duly, spans: Spans) -> None:
    @app.task
    def sell() -> None:
        raise ConditionFailed("sold already")

    with virtual(app) as clock:
        sell.enqueue()
        clock.run_due()

    ran = spans()[-1]
    assert ran.status.status_code is StatusCode.UNSET
    assert ran.facts["duly.skipped"] is True


def test_many_requests_in_one_write_are_one_span(app: Duly, spans: Spans) -> None:
    @app.task(name="pack")
    def pack(order: int) -> None: ...

    with virtual(app) as clock:
        pack.enqueue_many([((number,), {}) for number in range(3)])
        clock.run_due()

    asked, *runs = spans()
    assert (asked.name, asked.facts["messaging.batch.message_count"]) == ("enqueue pack", 3)
    assert [span.parent for span in runs] == [asked.id] * 3


def test_a_request_that_fails_is_an_error_of_its_span(app: Duly, spans: Spans) -> None:
    @app.task
    def pack() -> None: ...

    app.refuse_store("there is none here")
    with pytest.raises(Exception, match="there is none here"):
        pack.enqueue()

    (asked,) = spans()
    assert asked.status.status_code is StatusCode.ERROR
    assert asked.facts["error.type"] == "StoreUnavailable"


async def test_the_async_twin_traces_alike(stored: Duly, spans: Spans) -> None:
    @stored.task(name="wave", keep_result="1h")
    async def wave() -> None: ...

    async with stored.worker():
        await (await wave.aenqueue()).aresult(timeout="60s")

    asked, ran = sorted(
        spans(), key=lambda span: span.name
    )  # the run may end before the call that asked for it
    assert (asked.name, ran.name) == ("enqueue wave", "run wave")
    assert ran.parent == asked.id


def test_what_was_bound_and_baggage_travel_beside_the_trace(stored: Duly, spans: Spans) -> None:
    seen: list[object] = []

    @stored.task
    def look() -> None:
        seen.extend((dict(binding.bound()), baggage.get_baggage("tenant")))

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    with bind(user_id=7):
        look.enqueue()
    context.detach(token)
    stored.run(burst=True)

    assert seen == [{"user_id": 7}, "acme"]


@contextmanager
def callers_transaction(app: Duly) -> Generator[Any]:
    """Of the database that the store is in, on a connection of the caller's own; committed at its end."""
    app.open()
    url = app.settings.url
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            yield connection
        return
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
        connection.execute("pragma wal_autocheckpoint = 0")
        connection.execute("begin immediate")
        yield connection
        connection.execute("commit")


@pytest.mark.parametrize("stored", ["sqlite", "postgres"], indirect=True)
def test_requests_in_the_callers_transaction_carry_their_trace_with_a_key_and_without(
    stored: Duly, spans: Spans
) -> None:
    seen: list[object] = []

    @stored.task(name="bill")
    def bill() -> None:
        seen.append(dict(binding.bound()))

    with callers_transaction(stored) as connection, bind(user_id=7):
        bill.using(connection=connection).enqueue()
        bill.using(connection=connection, key="order:7").enqueue()
    stored.run(burst=True)

    first, second, *runs = spans()
    assert {span.parent for span in runs} == {first.id, second.id}
    assert len(runs) == 2
    assert seen == [{"user_id": 7}] * 2


@pytest.mark.parametrize("stored", ["sqlite", "postgres"], indirect=True)
def test_what_an_exactly_once_run_asks_for_in_its_transaction_is_below_it(stored: Duly, spans: Spans) -> None:
    seen: list[object] = []

    @stored.task(name="inner")
    def inner() -> None:
        seen.append(dict(binding.bound()))

    @stored.task(name="outer", delivery="exactly_once")
    def outer(run: Run) -> None:
        run.connection.execute("select 1")
        inner.enqueue()

    with bind(user_id=7):
        outer.enqueue()
    stored.run(burst=True)

    by_name = {span.name: span for span in spans()}
    path = ("enqueue outer", "run outer", "enqueue inner", "run inner")
    assert [by_name[name].parent for name in path] == [None, *(by_name[name].id for name in path[:-1])]
    assert seen == [{"user_id": 7}]


def test_log_lines_of_a_traced_run_name_their_trace(app: Duly, spans: Spans) -> None:
    lines: list[dict[str, object]] = []

    @app.task
    def look(run: Run) -> None:
        record = logging.makeLogRecord({"name": "shop", "levelname": "INFO", "msg": "hello"})
        lines.append(json.loads(JsonFormatter().format(record)))

    with virtual(app) as clock:
        look.enqueue()
        clock.run_due()

    ran = spans()[-1]
    assert lines[0]["trace_id"] == trace.format_trace_id(ran.trace)
    assert lines[0]["span_id"] == trace.format_span_id(ran.id)


# --- where nobody traces -----------------------------------------------------------------------------


def test_without_a_provider_nothing_is_added_to_a_request(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    @app.task
    def pack() -> None: ...

    with virtual(app):
        job = app.jobs.get(pack.enqueue().id)

    assert job.context == "{}"


@pytest.mark.parametrize("text", ["{}", "", "[]", '{"duly.trace": 5}', '{"duly.trace"', '"duly.trace"'])
def test_a_context_that_carries_no_trace_is_no_trace(text: str) -> None:
    assert headers_of(text) == {}


def test_headers_come_back_as_they_were() -> None:
    request = Request(id="1", task="pack", arguments="", context='{"user_id": 7}')

    (carried,) = carrying([request], {"traceparent": "00-1-2-01"})

    assert headers_of(carried.context) == {"traceparent": "00-1-2-01"}
    with binding.restored(carried.context):
        assert dict(binding.bound()) == {"user_id": 7}
