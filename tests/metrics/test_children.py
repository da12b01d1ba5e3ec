"""A trace goes through the worker's process into the child that runs the body."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.stories.conftest import PLACES

SHOP = """
import json, os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from duly import Duly
from duly.context import bound

class Pages(SpanExporter):
    def export(self, spans):
        with open("spans.jsonl", "a") as book:
            for span in spans:
                place = span.get_span_context()
                parent = span.parent and span.parent.span_id
                reason = span.status.description
                facts = [os.getpid(), span.name, place.trace_id, place.span_id, parent, reason]
                book.write(json.dumps(facts) + "\\n")
        return SpanExportResult.SUCCESS

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(Pages(), schedule_delay_millis=600_000))
trace.set_tracer_provider(provider)

app = Duly()

@app.task(name="inner")
def inner() -> None: ...

@app.task(name="outer", hard_limit="30s")
def outer() -> None:
    assert bound() == {"user_id": 7}
    inner.enqueue()
"""

SLEEPER = """
import time

@app.task(name="sleeper", hard_limit="300ms")
def sleeper() -> None:
    time.sleep(60)
"""
ACT = """
import shop
from duly import bind

with bind(user_id=7):
    shop.outer.enqueue()
shop.app.run(burst=True)
shop.provider.force_flush()
"""


def spans_of(folder: Path, source: str, act: str, store: str = "sqlite") -> list[list[Any]]:
    """What a process and its children have sent when it ended."""
    place = PLACES[store](folder)
    (folder / "shop.py").write_text(source)
    environment = {**os.environ, "DULY_URL": place.url, "DULY_NAMESPACE": place.namespace}
    command = [sys.executable, "-c", act]
    subprocess.run(command, cwd=folder, check=True, timeout=110, capture_output=True, env=environment)
    return [json.loads(line) for line in (folder / "spans.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "store",
    ["sqlite", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("postgres", "redis"))],
)
def test_a_body_in_a_child_process_is_part_of_the_trace_and_its_spans_outlive_it(
    tmp_path: Path, store: str
) -> None:
    spans = spans_of(tmp_path, SHOP, ACT, store)

    by_name = {name: (pid, span, parent) for pid, name, _, span, parent, _ in spans}
    assert set(by_name) == {"enqueue outer", "run outer", "enqueue inner", "run inner"}
    assert len({trace for _, _, trace, *_ in spans}) == 1
    assert by_name["run outer"][0] == by_name["enqueue inner"][0] != by_name["run inner"][0]
    assert by_name["run outer"][2] == by_name["enqueue outer"][1]
    assert by_name["enqueue inner"][2] == by_name["run outer"][1]
    assert by_name["run inner"][2] == by_name["enqueue inner"][1]


def test_a_run_that_was_killed_is_told_by_its_worker(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, SHOP + SLEEPER, ACT.replace("outer", "sleeper"))

    asked, ran = sorted(spans, key=lambda span: span[1])
    assert (asked[1], ran[1]) == ("enqueue sleeper", "run sleeper")
    assert ran[4] == asked[3]
    assert "0.3 s" in ran[5]
