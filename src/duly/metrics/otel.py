"""The same metrics for OpenTelemetry, in a process that has set it up: the worker hangs this on by itself."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.app import App
from duly.events import Event
from duly.metrics import catalogue
from duly.metrics.catalogue import Kind, Metric
from duly.metrics.readings import Measures, Patient, Reading
from duly.metrics.tally import lanes
from duly.tracing import RUN, SYSTEM, meter

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

FAILED = frozenset({"retry", "fail", "crash", "lost", "superseded"})
"""Outcomes that are errors to whoever counts errors."""


class Instruments(NamedTuple):
    """What is recorded as it happens."""

    consumed: Counter
    duration: Histogram
    wait: Histogram


@cache
def instruments() -> Instruments:
    """Made once: the provider of a process is set once, and no instrument can be taken back."""
    found = meter()
    assert found is not None
    for metric in catalogue.WORKER + catalogue.STORE:
        if metric.otel:
            _observe(found, metric)
    return Instruments(
        found.create_counter(catalogue.RUNS.otel, "{message}", catalogue.RUNS.meaning),
        found.create_histogram(catalogue.DURATION.otel, "s", catalogue.DURATION.meaning),
        found.create_histogram(catalogue.WAIT.otel, "s", catalogue.WAIT.meaning),
    )


def _observe(found: Meter, metric: Metric) -> None:
    create: Any = (
        found.create_observable_counter if metric.kind is Kind.COUNTER else found.create_observable_gauge
    )
    unit = "s" if metric.name.endswith("_seconds") else "1"
    create(metric.otel, [partial(_observations, metric)], unit, metric.meaning)


_watched: weakref.WeakSet[Measures] = weakref.WeakSet()
"""Of the workers that serve in this process now."""


def _observations(metric: Metric, _options: CallbackOptions) -> Iterator[Observation]:
    from opentelemetry.metrics import Observation

    for measures in list(_watched):
        for reading in _readings(measures, metric):
            facts = dict(zip(_attributes(metric), reading.labels, strict=True))
            yield Observation(reading.value, facts)


def _readings(measures: Measures, metric: Metric) -> Iterator[Reading]:
    read = measures.of_worker if metric in catalogue.WORKER else measures.of_store
    return (reading for reading in read() if reading.metric is metric)


def _attributes(metric: Metric) -> list[str]:
    names = {"task": "duly.task", "queue": "messaging.destination.name"}
    return [names.get(label, f"duly.{label}") for label in metric.labels]


def recorder() -> Callable[[Event], None]:
    """A listener that records the ends of runs."""
    known, to = lanes(), instruments()

    def record(event: Event) -> None:
        if event.seconds is None:
            return
        task, queue = known.place((event.task, event.queue))
        facts = {**SYSTEM, **RUN, "messaging.destination.name": queue, "duly.task": task}
        ended = {**facts, "duly.outcome": event.kind}
        if event.kind in FAILED:
            ended["error.type"] = event.kind
        to.consumed.add(1, ended)
        to.duration.record(event.seconds, ended)
        if event.wait is not None:
            to.wait.record(event.wait, facts)

    return record


@contextmanager
def observed(app: App, worker: Patient) -> Generator[None]:
    """While a worker serves: what it does is measured. Only for a process that measures."""
    stop = app.events.subscribe(recorder())
    measures = Measures(app, worker, counts_runs=False)
    _watched.add(measures)
    try:
        yield
    finally:
        _watched.discard(measures)
        measures.close()
        stop()
