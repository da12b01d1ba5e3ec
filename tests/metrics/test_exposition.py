"""What Prometheus reads: every metric of the catalogue, with the values that are true."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY, Counter
from prometheus_client.parser import text_string_to_metric_families as parsed

from duly import Duly, Retry
from duly.job import State
from duly.metrics import Health, Vitals, asgi, catalogue
from duly.metrics.prometheus import Exposed
from duly.metrics.readings import Measures
from duly.testing import virtual

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Well:
    """A worker that is well."""

    def vitals(self) -> Vitals:
        return Vitals(Health.OK, lease_margin=21.5, slots=20, running=3, held=4)


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parsed(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.fixture
def app() -> Duly:
    app = Duly("memory://")

    @app.task(name="mail", queue_name="letters", retry=Retry(on=OSError, attempts=2))
    def mail(to: str) -> None:
        if to == "nobody":
            raise OSError

    @app.schedule(cron="0 2 * * *")
    @app.task(name="bill")
    def bill() -> None: ...

    return app


@pytest.fixture
def samples(app: Duly) -> Iterator[Samples]:
    """After two letters, one of which will be tried again, and one that is an hour late."""
    with virtual(app) as clock:
        measures = Measures(app, Well())
        app.tasks["mail"].enqueue("ann")
        app.tasks["mail"].enqueue("nobody")
        clock.run_due()
        app.pause(task="mail")
        app.tasks["mail"].enqueue("bob")
        clock.advance("1h")
        yield samples_of(Exposed(measures, with_others=False).expose("").body.decode())


def test_runs_are_told_by_task_queue_and_outcome(samples: Samples) -> None:
    assert value(samples, "duly_runs_total", task="mail", queue="letters", outcome="done") == 1
    assert value(samples, "duly_runs_total", task="mail", queue="letters", outcome="retry") == 1


def test_times_are_told_as_histograms(samples: Samples) -> None:
    assert value(samples, "duly_run_duration_seconds_count", task="mail") == 2
    assert value(samples, "duly_run_duration_seconds_bucket", task="mail", le="0.01") == 2
    assert value(samples, "duly_run_duration_seconds_bucket", task="mail", le="+Inf") == 2


def test_jobs_and_lag_are_told_without_the_clockwork(samples: Samples) -> None:
    queues = {dict(labels).get("queue") for (name, labels) in samples if name == "duly_jobs"}

    assert value(samples, "duly_jobs", task="mail", queue="letters", state="waiting") == 2
    assert value(samples, "duly_jobs", task="mail", queue="letters", state="done") == 1
    assert value(samples, "duly_queue_lag_seconds", queue="letters") == 3600
    assert queues == {"letters"}


def test_workers_and_what_is_held_are_told(samples: Samples) -> None:
    assert value(samples, "duly_held", scope="task") == 1
    assert value(samples, "duly_held", scope="queue") == 0
    assert value(samples, "duly_store_up") == 1
    assert {dict(labels)["state"] for (name, labels) in samples if name == "duly_workers"} == {"live", "lost"}


def test_the_worker_of_the_process_is_told(samples: Samples) -> None:
    assert value(samples, "duly_worker_can_claim") == 1
    assert value(samples, "duly_worker_lease_margin_seconds") == 21.5
    assert value(samples, "duly_worker_slots") == 20
    assert value(samples, "duly_worker_running") == 3
    assert value(samples, "duly_worker_held") == 4


def test_every_metric_of_the_catalogue_is_exposed_and_no_other(samples: Samples) -> None:
    outbox = {catalogue.OUTBOX.name, catalogue.OUTBOX_AGE.name, catalogue.OUTBOX_ASIDE.name}
    empty = {catalogue.WAIT.name}  # a virtual clock lends nothing
    stems = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name, _ in samples}

    assert stems == {metric.name for metric in catalogue.METRICS} - outbox - empty


def test_labels_are_those_of_the_catalogue(samples: Samples) -> None:
    known = {metric.name: set(metric.labels) for metric in catalogue.METRICS}

    for name, labels in samples:
        if name in known:
            assert {label for label, _ in labels} == known[name]


def test_what_the_application_counts_itself_is_exposed_beside(app: Duly) -> None:
    letters = Counter("letters_of_the_shop", "Letters.", registry=REGISTRY)
    measures = Measures(app)
    try:
        letters.inc(3)
        samples = samples_of(Exposed(measures, with_others=True).expose("").body.decode())
    finally:
        REGISTRY.unregister(letters)
        measures.close()

    assert value(samples, "letters_of_the_shop_total") == 3
    assert value(samples, "duly_store_up") == 1


def test_a_task_with_a_hostile_name_forges_no_line(app: Duly) -> None:
    name = 'x"} 1\nduly_store_up 0\n'
    with virtual(app) as clock:
        app.task(name='x"} 1 duly_store_up 0')(lambda: None).enqueue()
        measures = Measures(app)
        clock.run_due()
        app.tasks["mail"].using(queue_name='a"b\\c').enqueue("ann")
        samples = samples_of(Exposed(measures, with_others=False).expose("").body.decode())

    assert value(samples, "duly_store_up") == 1
    assert value(samples, "duly_jobs", task="mail", queue='a"b\\c', state=str(State.WAITING)) == 1
    assert name not in {dict(labels).get("task") for _, labels in samples}


def test_the_mounted_page_answers_any_server(app: Duly) -> None:
    site, sent = asgi(app), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {}

    scope = {"type": "http", "method": "GET", "headers": [(b"accept", b"text/plain")]}
    asyncio.run(_awaited(site(scope, receive, send)))

    start, body = sent
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/plain")
    assert value(samples_of(body["body"].decode()), "duly_store_up") == 1


async def _awaited(answer: Any) -> None:
    await answer
