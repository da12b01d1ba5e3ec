"""A worker in a web process: FastAPI's own client, and a real server that is told to stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2 as httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from tests.stories.arrange import Gate, until

from duly import Duly, StoreUnavailable
from duly.errors import DefinitionError
from duly.integrations.asgi import Companion, Health, get_duly, get_worker, health, lifespan, stop_server
from duly.worker import worker as worker_module

ROOT = Path(__file__).parents[2]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Duly]:
    app = Duly(f"sqlite:///{tmp_path}/duly.db", grace="10s")
    yield app
    app.close()


def site_of(app: Duly, **options: Any) -> FastAPI:
    site = FastAPI(lifespan=lifespan(app, **options))
    site.add_route("/health", health)
    return site


def break_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look of a serving worker at whether it is over fails, as a defect in it would."""

    def broken(_self: Any, _pump: Any) -> bool:
        raise RuntimeError("a defect")

    monkeypatch.setattr(worker_module.Worker, "_is_worn_out", broken)


# --- working ----------------------------------------------------------------------------------------


def test_a_task_enqueued_by_a_request_runs_in_the_web_process(app: Duly) -> None:
    @app.task(keep_result="1h")
    async def double(number: int) -> tuple[int, int]:
        return 2 * number, os.getpid()

    site = site_of(app)

    @site.post("/double/{number}")
    async def ask(number: int) -> dict[str, str]:
        return {"id": (await double.aenqueue(number)).id}

    with TestClient(site) as client:
        job = client.post("/double/21").json()["id"]

        assert app.get_result(job).result(timeout="60s") == (42, os.getpid())


def test_a_dependency_gives_the_application_and_the_worker(app: Duly) -> None:
    site = site_of(app, name="beside the shop")

    @site.get("/")
    def look(
        duly: Annotated[Duly, Depends(get_duly)], worker: Annotated[Companion, Depends(get_worker)]
    ) -> list[str]:
        return [str(duly is app), worker.worker.name, worker.health]

    with TestClient(site) as client:
        assert client.get("/").json() == ["True", "beside the shop", "ok"]


def test_the_health_endpoint_says_that_the_worker_works(app: Duly) -> None:
    with TestClient(site_of(app)) as client:
        answer = client.get("/health")

    assert (answer.status_code, answer.json()) == (200, {"worker": "ok"})


def test_a_site_without_the_lifespan_is_told_what_to_do(app: Duly) -> None:
    site = FastAPI()
    site.add_route("/health", health)

    with TestClient(site) as client, pytest.raises(DefinitionError, match=r"lifespan=lifespan\(app\)"):
        client.get("/health")


def test_ones_own_lifespan_begins_before_the_worker_and_ends_after_it(app: Duly) -> None:
    told: list[str] = []

    @asynccontextmanager
    async def own(_site: Any) -> AsyncGenerator[dict[str, str]]:
        told.append("own begins")
        yield {"greeting": "hello"}
        told.append(f"own ends, {len(app.store.run(app.store.workers()))} workers")

    with TestClient(site_of(app, inner=own)) as client:
        told.append(f"site, {len(app.store.run(app.store.workers()))} workers")
        assert client.app_state["greeting"] == "hello"

    assert told == ["own begins", "site, 1 workers", "own ends, 0 workers"]


# --- stopping ---------------------------------------------------------------------------------------


def test_the_end_of_the_site_lets_a_running_task_finish(app: Duly) -> None:
    gate = Gate()
    timer = threading.Timer(0.2, gate.open)

    @app.task
    def slow() -> None:
        timer.start()
        gate.wait_here()

    with TestClient(site_of(app)):
        job = slow.enqueue()
        until(lambda: job.state() != "waiting")

    assert job.state() == "done"


def test_a_task_longer_than_the_grace_is_handed_back(app: Duly) -> None:
    began = threading.Event()

    @app.task
    async def endless() -> None:
        began.set()
        await _forever()

    with TestClient(site_of(app, grace="100ms")):
        job = endless.enqueue()
        assert began.wait(60)

    view = app.jobs.get(job.id)
    assert (view.state, view.attempt) == ("waiting", 0)


async def _forever() -> None:
    await asyncio.Event().wait()


# --- dying ------------------------------------------------------------------------------------------


def test_a_dead_worker_is_told_and_shows_in_the_health(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths: list[BaseException] = []

    with TestClient(site_of(app, on_death=deaths.append)) as client:
        break_the_loop(monkeypatch)
        app.store.ring()
        until(lambda: client.get("/health").status_code == 503)

        assert client.get("/health").json() == {"worker": "dead"}

    assert len(deaths) == 1
    assert "a defect" in str(deaths[0])


def test_a_worker_that_somebody_stops_is_no_death_but_no_health_either(app: Duly) -> None:
    deaths: list[BaseException] = []
    site = site_of(app, on_death=deaths.append)

    @site.post("/stop")
    def stop(worker: Annotated[Companion, Depends(get_worker)]) -> None:
        worker.worker.stop()

    with TestClient(site) as client:
        client.post("/stop")
        until(lambda: client.get("/health").json() == {"worker": Health.ENDED})

        assert client.get("/health").status_code == 503

    assert deaths == []


def test_a_store_that_refuses_for_good_keeps_the_site_from_starting(tmp_path: Path) -> None:
    (tmp_path / "duly.db").write_text("this is no database, and only a person can tell what it is" * 100)
    app = Duly(f"sqlite:///{tmp_path}/duly.db")

    with pytest.raises(StoreUnavailable, match=r"duly\.db"), TestClient(site_of(app)):
        pass


@pytest.mark.redis
def test_a_store_that_is_away_does_not_keep_the_site_from_starting(tmp_path: Path) -> None:
    from tests.servers_redis import RedisServer

    server = RedisServer(tmp_path)
    app = Duly(server.url)

    @app.task
    def work() -> None: ...

    try:
        with TestClient(site_of(app, patience="50ms")) as client:
            before = client.get("/health")
            server.start()
            until(lambda: client.get("/health").json() == {"worker": "ok"})
            job = work.enqueue()
            until(lambda: job.state() == "done")
    finally:
        app.close()
        server.stop(signal.SIGKILL)

    assert (before.status_code, before.json()) == (200, {"worker": "waiting for the store"})


def test_without_a_server_that_listens_no_signal_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: sent.append(number))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    stop_server(RuntimeError("a defect"))

    assert sent == []


# --- a real server ----------------------------------------------------------------------------------

SITE = """
import asyncio, sys
from fastapi import FastAPI
from duly import Duly
from duly.integrations.asgi import health, lifespan
from duly.worker import worker as inside

app = Duly("sqlite:///duly.db", grace="20s")

@app.task
async def slow() -> None:
    print("began", flush=True)
    await asyncio.sleep(0.7)
    print("finished", flush=True)

site = FastAPI(lifespan=lifespan(app))
site.add_route("/health", health)

@site.post("/slow")
async def ask() -> str:
    return (await slow.aenqueue()).id

@site.post("/break")
def break_worker() -> None:
    def broken(self, pump):
        raise RuntimeError("a defect")
    inside.Worker._is_worn_out = broken
    app.store.ring()
"""


@contextmanager
def served(folder: Path) -> Generator[tuple[subprocess.Popen[str], httpx.Client]]:
    (folder / "site_of_test.py").write_text(SITE)
    command = [sys.executable, "-m", "uvicorn", "site_of_test:site", "--port", "0"]
    server = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        with httpx.Client(base_url=_address(server), timeout=60) as client:
            yield server, client
    finally:
        server.kill()
        server.communicate()


def _address(server: subprocess.Popen[str]) -> str:
    """Where it listens, as it says itself once it does."""
    assert server.stdout is not None
    printed: list[str] = []
    for line in server.stdout:
        printed.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            return found[1]
    raise AssertionError("".join(printed))


def test_sigterm_to_the_server_drains_the_worker(tmp_path: Path) -> None:
    with served(tmp_path) as (server, client):
        job = client.post("/slow").json()
        app = Duly(f"sqlite:///{tmp_path}/duly.db")
        until(lambda: app.jobs.get(job).state != "waiting")

        server.send_signal(signal.SIGTERM)
        printed, _ = server.communicate(timeout=60)

    assert "finished" in printed
    assert app.jobs.get(job).state == "done"
    app.close()


def test_a_server_whose_worker_dies_stops_so_that_its_supervisor_starts_a_whole_one(tmp_path: Path) -> None:
    with served(tmp_path) as (server, client):
        client.post("/break")
        printed, _ = server.communicate(timeout=60)

    assert "the worker in this web process died" in printed
    assert "Application shutdown complete" in printed
    assert server.returncode is not None
