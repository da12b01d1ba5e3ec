"""`duly worker` as a process of its own: its port, and the log lines of bodies in its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

SHOP = """
import logging
from duly import Duly, Run, bind

app = Duly("sqlite:///duly.db", lease="30s")

@app.task(name="there", hard_limit="100s", queue_name="io")
def there(run: Run) -> None:
    run.log.info("hello %s", "there")
    logging.getLogger("shop").warning("plain")

if __name__ == "__main__":
    with bind(lease_id=42):
        there.using(key="k").enqueue()
"""


class Shop:
    """A folder with an application, and a worker in it."""

    def __init__(self, folder: Path) -> None:
        (folder / "shop.py").write_text(SHOP)
        self.folder = folder
        self._worker: subprocess.Popen[str] | None = None

    def run(self, *words: str) -> None:
        subprocess.run([sys.executable, *words], cwd=self.folder, check=True, timeout=60)

    def start(self, *words: str) -> Generator[dict[str, Any]]:
        """A worker; what it logs, line by line."""
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "duly", "worker", *words],
            cwd=self.folder, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "DULY_LOG_FORMAT": "json", "DULY_VERBOSE": "1"},
        )  # fmt: skip
        assert self._worker.stderr is not None
        for line in self._worker.stderr:
            yield json.loads(line)

    def stop(self) -> int:
        assert self._worker is not None
        self._worker.send_signal(signal.SIGTERM)
        self._worker.communicate(timeout=60)
        return self._worker.returncode

    def close(self) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.kill()
            self._worker.communicate()


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def asked(address: str) -> tuple[int, str]:
    try:
        with urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_a_worker_answers_at_its_port_and_its_children_log_like_itself(shop: Shop) -> None:
    shop.run("shop.py")
    lines = list[dict[str, Any]]()

    for line in shop.start("shop:app", "--metrics-port", "0"):
        lines.append(line)
        if line.get("event") == "done":
            break
    (where,) = (line["message"].rpartition(" ")[2] for line in lines if line["logger"] == "duly.metrics")
    status, metrics = asked(where)
    health = asked(where.replace("/metrics", "/health"))
    code = shop.stop()

    assert status == 200
    assert 'duly_runs_total{outcome="done",queue="io",task="there"} 1.0' in metrics
    assert 'duly_run_wait_seconds_count{task="there"} 1.0' in metrics
    assert "process_resident_memory_bytes" in metrics
    assert (health[0], json.loads(health[1])) == (200, {"ok": True, "worker": "ok"})
    assert code == 0
    said = [line for line in lines if line["logger"] in ("duly.task.there", "shop")]
    assert [line["message"] for line in said] == ["hello there", "plain"]
    for line in said:
        facts = (line["task"], line["key"], line["attempt"], line["epoch"], line["context"])
        assert facts == ("there", "k", 1, 1, {"lease_id": 42})
        assert len(line["job_id"]) == 32


def test_a_worker_whose_store_is_away_at_the_start_is_live_and_not_ready(shop: Shop) -> None:
    pytest.importorskip("psycopg")
    nowhere = "postgresql://127.0.0.1:9/shop?connect_timeout=2"
    with open(shop.folder / "shop.py", "w") as module:
        module.write(f"from duly import Duly\napp = Duly({nowhere!r})\n")

    lines = shop.start("shop:app", "--metrics-port", "0")
    where = next(line["message"].rpartition(" ")[2] for line in lines if line["logger"] == "duly.metrics")
    health, live = asked(where.replace("/metrics", "/health")), asked(where.replace("/metrics", "/live"))
    _, metrics = asked(where)

    assert (health[0], json.loads(health[1])["worker"]) == (503, "waiting for the store")
    assert live[0] == 200
    assert "duly_store_up 0.0" in metrics
    assert "duly_worker_can_claim 0.0" in metrics
