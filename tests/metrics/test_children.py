"""A trace goes through the worker's process into the child that runs the body."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SHOP = """
import json, os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from duly import Duly

class Pages(SpanExporter):
    def export(self, spans):
        with open("spans.jsonl", "a") as book:
            for span in spans:
                place = span.get_span_context()
                parent = span.parent and span.parent.span_id
                facts = [os.getpid(), span.name, place.trace_id, place.span_id, parent]
                book.write(json.dumps(facts) + "\\n")
        return SpanExportResult.SUCCESS

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(Pages(), schedule_delay_millis=600_000))
trace.set_tracer_provider(provider)

app = Duly("sqlite:///duly.db")

@app.task(name="inner")
def inner() -> None: ...

@app.task(name="outer", hard_limit="30s")
def outer() -> None:
    inner.enqueue()
"""
ACT = "import shop; shop.outer.enqueue(); shop.app.run(burst=True); shop.provider.force_flush()"


def test_a_body_in_a_child_process_is_part_of_the_trace_and_its_spans_outlive_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    subprocess.run(
        [sys.executable, "-c", ACT],
        cwd=tmp_path, env=environment, check=True, timeout=60,
    )  # fmt: skip

    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    by_name = {name: (pid, span, parent) for pid, name, _, span, parent in lines}
    assert set(by_name) == {"enqueue outer", "run outer", "enqueue inner", "run inner"}
    assert len({trace for _, _, trace, _, _ in lines}) == 1
    assert by_name["run outer"][0] == by_name["enqueue inner"][0] != by_name["run inner"][0]
    assert by_name["run outer"][2] == by_name["enqueue outer"][1]
    assert by_name["enqueue inner"][2] == by_name["run outer"][1]
    assert by_name["run inner"][2] == by_name["enqueue inner"][1]
