"""What a process that has set up OpenTelemetry would send, kept in memory; undone after each test.

What travels with a job is tested on every store: each keeps and hands on the context in its own way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.metrics import _internal as metrics_api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status
from tests.stories.conftest import OPTIONS, PLACES

from duly import Duly, tracing
from duly.metrics import otel


class Seen(NamedTuple):
    """A span that has ended."""

    name: str
    kind: SpanKind
    trace: int
    id: int
    parent: int | None
    facts: dict[str, Any]
    links: list[int]
    events: list[str]
    status: Status


Spans = Callable[[], list[Seen]]
Points = Callable[[str], list[tuple[dict[str, Any], Any]]]


@pytest.fixture(params=list(PLACES))
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Duly]:
    """An application on each store, with a worker of its own to run."""
    place = PLACES[request.param](tmp_path)
    app = Duly(place.url, namespace=place.namespace, **OPTIONS)
    yield app
    app.close()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Tracing is set up; call it for the spans that have ended, in the order of their ends."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return lambda: [_seen(span) for span in exporter.get_finished_spans()]


def _seen(span: ReadableSpan) -> Seen:
    place = span.get_span_context()
    assert place is not None
    return Seen(
        name=span.name,
        kind=span.kind,
        trace=place.trace_id,
        id=place.span_id,
        parent=None if span.parent is None else span.parent.span_id,
        facts=dict(span.attributes or {}),
        links=[link.context.span_id for link in span.links],
        events=[event.name for event in span.events],
        status=span.status,
    )


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Generator[Points]:
    """Metrics are set up; call it with a name for the attributes and the value or count of each point."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics_api, "_METER_PROVIDER", provider)
    _forget_instruments()
    yield lambda name: _points(reader, name)
    _forget_instruments()


def _forget_instruments() -> None:
    """They belong to the provider of the process, which nobody but a test changes."""
    tracing.sending_instruments.cache_clear()
    otel.instruments.cache_clear()


def _points(reader: InMemoryMetricReader, name: str) -> list[tuple[dict[str, Any], Any]]:
    found = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    return [
        (point["attributes"], point.get("value", point.get("count")))
        for resource in found["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
        if metric["name"] == name
        for point in metric["data"]["data_points"]
    ]
