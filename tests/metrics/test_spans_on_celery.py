"""A trace through Celery: its broker carries what the request was made under, as our stores do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from tests.metrics.conftest import Points, Spans

from duly import Retry, Run, bind
from duly import context as binding
from duly.integrations.celery import OnCelery


class Carried:
    """Tasks on a Celery whose broker is in memory, and the messages on it."""

    def __init__(self) -> None:
        self.celery: Any = Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)
        self.celery.conf.task_default_queue = f"of-{uuid4()}"  # the process has one broker, which keeps all
        self.app = OnCelery(self.celery)

    def work(self) -> int:
        """Take every message off the broker, and have Celery run it where nothing of the caller is left."""
        with self.celery.connection_for_read() as connection:
            queue = connection.SimpleQueue(self.celery.conf.task_default_queue)
            count = 0
            while queue.qsize():
                message = queue.get(block=False)
                message.ack()
                self._run(message.headers, message.payload[1])
                count += 1
            queue.close()
        return count

    def _run(self, headers: dict[str, Any], kwargs: dict[str, Any]) -> None:
        token = context.attach(context.Context())
        try:
            self.celery.tasks[headers["task"]].apply(kwargs=kwargs, task_id=headers["id"])
        finally:
            context.detach(token)


@pytest.fixture
def shop() -> Iterator[Carried]:
    carried = Carried()
    yield carried
    carried.celery.close()


def test_a_run_on_celery_is_a_child_of_the_span_that_asked_for_it(shop: Carried, spans: Spans) -> None:
    seen: list[object] = []

    @shop.app.task(name="shop.mail")
    def mail(to: str) -> None:
        seen.extend((to, dict(binding.bound()), baggage.get_baggage("tenant")))

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    with bind(user_id=7), trace.get_tracer("web").start_as_current_span("POST /orders") as page:
        job = mail.enqueue("ann")
    context.detach(token)

    assert shop.work() == 1
    asked, _, ran = spans()
    assert (asked.name, asked.kind, asked.parent) == (
        "enqueue shop.mail",
        SpanKind.PRODUCER,
        page.get_span_context().span_id,
    )
    assert (ran.name, ran.kind, ran.parent, ran.trace) == (
        "run shop.mail",
        SpanKind.CONSUMER,
        asked.id,
        asked.trace,
    )
    assert asked.facts["duly.decision"] == "created"
    assert asked.facts["messaging.message.id"] == ran.facts["messaging.message.id"] == job.id
    assert seen == ["ann", {"user_id": 7}, "acme"]


def test_what_a_run_on_celery_asks_for_is_below_it(shop: Carried, spans: Spans) -> None:
    @shop.app.task(name="inner")
    async def inner() -> None:
        seen.append(dict(binding.bound()))

    @shop.app.task(name="outer")
    async def outer() -> None:
        await inner.aenqueue()

    seen: list[object] = []
    with bind(user_id=7):
        asyncio.run(outer.aenqueue())

    assert shop.work() == 2
    by_name = {span.name: span for span in spans()}
    path = ("enqueue outer", "run outer", "enqueue inner", "run inner")
    assert [by_name[name].parent for name in path] == [None, *(by_name[name].id for name in path[:-1])]
    assert seen == [{"user_id": 7}]


def test_every_try_on_celery_is_below_the_same_request(shop: Carried, spans: Spans) -> None:
    @shop.app.task(name="call", retry=Retry(on=OSError, attempts=2, first="1ms", jitter=0))
    def call(run: Run) -> None:
        if run.attempt == 1:
            raise OSError("the line is dead")

    call.enqueue()

    shop.work()
    asked, first, second = spans()
    assert [first.parent, second.parent] == [asked.id] * 2
    assert [span.facts["duly.attempt"] for span in (first, second)] == [1, 2]
    assert [span.status.status_code for span in (first, second)] == [StatusCode.ERROR, StatusCode.UNSET]


def test_requests_to_celery_are_measured(shop: Carried, points: Points) -> None:
    @shop.app.task(name="mail")
    def mail() -> None: ...

    mail.enqueue()

    [(facts, number)] = points("messaging.client.sent.messages")
    assert (facts["duly.task"], facts["messaging.operation.name"], number) == ("mail", "enqueue", 1)


def test_where_nobody_traces_nothing_is_added_to_a_message(shop: Carried) -> None:
    @shop.app.task(name="mail")
    def mail() -> None:
        seen.append(trace.get_current_span().get_span_context().is_valid)

    seen: list[bool] = []
    mail.enqueue()

    assert shop.work() == 1
    assert seen == [False]
