"""bench: figures of a store, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.arrange import Command

from duly import Duly
from duly.cli.bench import NAMESPACE


def test_a_bench_tells_figures_and_leaves_no_job_behind(duly: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'measured.db'}"

    found = duly("bench", url, "--jobs", "1500", "--json")

    assert found.code == 0
    assert [each["what"] for each in found.document["figures"]] == [
        "enqueue",
        "enqueue_many",
        "drain, one worker",
        "pick-up, median",
        "pick-up, p95",
    ]
    assert all(each["value"] > 0 for each in found.document["figures"])
    app = Duly(url, namespace=NAMESPACE)
    assert app.jobs.count() == 0
    app.close()


def test_a_comparison_needs_a_checkout(
    duly: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = duly("bench", "--peers")

    assert found.code == 2
    assert "needs the folder benchmarks/ of a checkout" in found.err
