"""Probes: red when a worker cannot claim, and a different red when only a new start would help."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import REGISTRY

from duly import Duly
from duly.cli import main
from duly.errors import DefinitionError, StoreUnavailable
from duly.metrics import Health, Vitals, serve


class Patient:
    """A worker that is as it is told to be."""

    health = Health.OK

    def vitals(self) -> Vitals:
        return Vitals(self.health, slots=1)


@contextmanager
def port_of(patient: Any) -> Generator[int]:
    with serve(Duly("memory://"), port=0, worker=patient) as server:
        yield server.server_port


def asked(port: int, page: str) -> tuple[int, Any]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


@pytest.mark.parametrize(
    ("health", "can_claim", "is_alive"),
    [
        (Health.OK, 200, 200),
        (Health.ARRIVING, 503, 200),
        (Health.AWAY, 503, 200),
        (Health.FENCED, 503, 200),
        (Health.STOPPING, 503, 200),
        (Health.ENDED, 503, 503),
        (Health.DEAD, 503, 503),
    ],
)
def test_a_store_that_is_away_makes_a_worker_unready_but_not_dead(
    health: Health, can_claim: int, is_alive: int
) -> None:
    patient = Patient()
    patient.health = health

    with port_of(patient) as port:
        ready, live = asked(port, "health"), asked(port, "live")

    assert (ready[0], live[0]) == (can_claim, is_alive)
    assert json.loads(ready[1]) == {"ok": can_claim == 200, "worker": str(health)}


def test_the_port_shows_metrics_and_nothing_else() -> None:
    with port_of(Patient()) as port:
        metrics, other = asked(port, "metrics?x=1"), asked(port, "../../etc/passwd")

    assert metrics[0] == 200
    assert b"duly_worker_can_claim 1.0" in metrics[1]
    assert other == (404, b"try /metrics, /health or /live\n")


def test_a_page_that_cannot_be_made_is_logged_and_the_next_one_can(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a collector of the application that fails."""
    monkeypatch.setattr(REGISTRY, "collect", lambda: 1 / 0)

    with port_of(Patient()) as port:
        with pytest.raises((OSError, HTTPException)):
            asked(port, "metrics")
        health = asked(port, "health")

    assert "a reader of metrics was not answered" in caplog.text
    assert health[0] == 200


def test_a_port_that_is_taken_is_refused_with_the_remedy() -> None:
    with port_of(Patient()) as port, pytest.raises(DefinitionError, match="Choose a free port"):
        serve(Duly("memory://"), port=port).__enter__()


def test_the_port_is_for_this_machine_unless_somebody_says_otherwise() -> None:
    with serve(Duly("memory://"), port=0) as server:
        assert server.server_address[0] == "127.0.0.1"


# --- real workers ------------------------------------------------------------------------------------


async def test_a_worker_tells_how_it_is_through_its_life() -> None:
    app = Duly("memory://")
    worker = app.worker(concurrency=3)
    before = worker.vitals()

    async with worker:
        during = worker.vitals()
        worker.stop()
        stopping = worker.vitals()

    assert before.health is Health.ARRIVING
    assert (during.health, during.slots, during.running) == (Health.OK, 3, 0)
    assert during.lease_margin is not None
    assert 0 < during.lease_margin <= app.settings.lease.total_seconds()
    assert stopping.health in (Health.STOPPING, Health.ENDED)
    assert worker.vitals().health is Health.ENDED


async def test_a_worker_whose_store_goes_away_turns_red_and_green_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Duly("memory://", poll="10ms")
    app.task(name="mail")(lambda: None)
    turn, is_away = app.store.turn, threading.Event()

    def perhaps(*words: Any) -> Any:
        if is_away.is_set():
            raise StoreUnavailable("gone fishing")
        return turn(*words)

    monkeypatch.setattr(app.store, "turn", perhaps)
    async with app.worker() as worker:
        is_away.set()
        app.store.ring()
        away = await _becoming(worker, Health.AWAY)
        is_away.clear()
        back = await _becoming(worker, Health.OK)

    assert away
    assert back


async def test_a_worker_whose_call_to_the_store_hangs_turns_red(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Duly("memory://", poll="10ms", lease="1s")
    app.task(name="mail")(lambda: None)
    turn, may_go_on = app.store.turn, threading.Event()

    def hanging(*words: Any) -> Any:
        may_go_on.wait(60)
        return turn(*words)

    async with app.worker() as worker:
        monkeypatch.setattr(app.store, "turn", hanging)
        is_red = await _becoming(worker, Health.AWAY)
        may_go_on.set()
        is_green = await _becoming(worker, Health.OK)

    assert is_red
    assert is_green


async def test_a_worker_whose_lease_is_not_renewed_turns_red(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Duly("memory://", poll="10ms", lease="1s")
    renew, is_away = app.store.renew, threading.Event()

    def perhaps(*words: Any) -> Any:
        if is_away.is_set():
            raise StoreUnavailable("gone fishing")
        return renew(*words)

    monkeypatch.setattr(app.store, "renew", perhaps)
    async with app.worker() as worker:
        is_away.set()
        is_red = await _becoming(worker, Health.FENCED)
        margin = worker.vitals().lease_margin
        is_away.clear()
        is_green = await _becoming(worker, Health.OK)

    assert is_red
    assert margin is not None
    assert margin < 0
    assert is_green


async def _becoming(worker: Any, health: Health) -> bool:
    for _ in range(6000):
        if worker.vitals().health is health:
            return True
        await asyncio.sleep(0.01)
    return False


# --- duly health -------------------------------------------------------------------------------------


def test_a_probe_that_runs_a_command_exits_with_the_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    patient = Patient()
    with port_of(patient) as port:
        monkeypatch.setenv("DULY_METRICS_PORT", str(port))
        monkeypatch.setenv("DULY_METRICS_HOST", "0.0.0.0")
        well = main(["health"])
        patient.health = Health.AWAY
        away, live = main(["health", "--json"]), main(["health", "--live"])
    gone = main(["health"])

    said = capsys.readouterr().out
    assert (well, away, live, gone) == (0, 1, 0, 1)
    assert "the store does not answer" in said
    assert f"nobody answers at http://127.0.0.1:{port}/health" in said


def test_a_probe_must_be_told_where_to_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DULY_METRICS_PORT", raising=False)

    assert main(["health"]) == 2
    assert "DULY_METRICS_PORT" in capsys.readouterr().err
