"""The text that Prometheus reads, made by its own library; with what the application registered itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from duly.errors import MissingExtra
from duly.metrics import catalogue
from duly.metrics.catalogue import BOUNDS, Kind, Metric
from duly.metrics.readings import Measures, Reading
from duly.metrics.tally import Times

try:
    from prometheus_client import REGISTRY
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.exposition import choose_encoder
except ImportError as error:
    raise MissingExtra("/metrics", "metrics") from error

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector


class Exposition(NamedTuple):
    """What a scraper is answered."""

    content_type: str
    body: bytes


class Exposed:
    """Everything there is to read, as the library wants it."""

    def __init__(self, measures: Measures, *, with_others: bool) -> None:
        self._measures = measures
        self._others: Collector | None = REGISTRY if with_others else None
        """What tasks count themselves, and what the library knows about the process."""

    def collect(self) -> Iterator[Family]:
        """The families, ours first."""
        yield from _runs(self._measures)
        yield from _families([*self._measures.of_worker(), *self._measures.of_store()])
        if self._others is not None:
            yield from self._others.collect()

    def expose(self, accept: str) -> Exposition:
        """In the form the reader prefers."""
        encode, content_type = choose_encoder(accept)
        return Exposition(content_type, encode(self))


def _runs(measures: Measures) -> Iterator[Family]:
    runs = CounterMetricFamily(_stem(catalogue.RUNS), catalogue.RUNS.meaning, labels=catalogue.RUNS.labels)
    for labels, number in list(measures.tally.runs.items()):
        runs.add_metric(labels, number)
    yield runs
    yield _histogram(catalogue.DURATION, measures.tally.durations)
    yield _histogram(catalogue.WAIT, measures.tally.waits)


def _histogram(metric: Metric, times: dict[str, Times]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
    for task, found in list(times.items()):
        buckets = list(zip(bounds, accumulate(found.buckets), strict=True))
        family.add_metric([task], buckets, found.total)
    return family


def _families(readings: Iterable[Reading]) -> Iterator[Family]:
    """Values of one metric together: the format knows each name once."""
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for metric, labels, value in readings:
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        if metric.name not in found:
            found[metric.name] = kind(_stem(metric), metric.meaning, labels=metric.labels)
        found[metric.name].add_metric(labels, value)
    yield from found.values()


def _stem(metric: Metric) -> str:
    """The library adds the ending of a counter itself."""
    return metric.name.removesuffix("_total")
