"""The dashboard file for Grafana, and the page about metrics, speak of what exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.metrics.catalogue import METRICS, Kind

DOCS = Path(__file__).parents[2] / "docs"
BOARD: dict[str, Any] = json.loads((DOCS / "grafana" / "duly.json").read_text())
PAGE = (DOCS / "how-to" / "metrics.md").read_text()
USE = re.compile(r"\b(duly_\w+)(?:\{([^}]*)\})?")


def expressions() -> Iterator[str]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def labels_of() -> dict[str, set[str]]:
    """The names of series, with the labels each has besides those of the scraper."""
    series: dict[str, set[str]] = {}
    for metric in METRICS:
        parts = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        for part in parts:
            series[metric.name + part] = {
                *metric.labels,
                "le" if part == "_bucket" else "",
                "job",
                "instance",
            }
    return series


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_query_of_the_board_uses_metrics_and_labels_that_exist(expression: str) -> None:
    series, uses = labels_of(), USE.findall(expression)

    assert uses
    for name, matchers in uses:
        assert name in series
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= series[name]
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= series[uses[0][0]]


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            kept = {
                word for part in re.findall(r"by \(([^)]*)\)", target["expr"]) for word in part.split(", ")
            }
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert legend <= (kept or {"instance"}), panel["title"]


def test_every_metric_is_drawn_somewhere() -> None:
    drawn = {name for expression in expressions() for name, _ in USE.findall(expression)}
    stems = {name.removesuffix("_bucket") for name in drawn}

    assert {metric.name for metric in METRICS} - stems == set()


def test_panels_have_room_of_their_own() -> None:
    places = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in BOARD["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]

    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_has_its_row_on_the_page(metric: Any) -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{metric.name}` | "))
    _, _, labels, otel, *_ = (cell.strip() for cell in row.split("|"))

    assert set(re.findall(r"`(\w+)`", labels)) == set(metric.labels)
    assert otel.strip("`") == metric.otel


def test_the_page_names_no_other_metric() -> None:
    series = labels_of()
    known = set(series) | {metric.name for metric in METRICS}

    assert set(re.findall(r"\bduly_[a-z]\w*", PAGE)) <= known
