"""Servers that are away, or say no, when somebody needs them: who waits, who ends, and what each is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.faults.conftest import OpenApp
from tests.faults.crew import ROOT, WorkerProcess, busiest_second
from tests.faults.load import until
from tests.servers import PostgresServer
from tests.servers_redis import RedisServer, private_server

from duly import StoreUnavailable
from duly.stores.redis import RedisStore

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(60)]

SECRET = "sw0rdfish"
Launch = Callable[..., WorkerProcess]


@pytest.fixture
def launch(tmp_path: Path) -> Generator[Launch]:
    """Starts a worker and does not wait for it."""
    with ExitStack() as stack:

        def start(**variables: str) -> WorkerProcess:
            worker = WorkerProcess(tmp_path / "worker.log", **variables)
            stack.callback(worker.end)
            return worker

        yield start


# --- away -----------------------------------------------------------------------------------------


@pytest.fixture(params=["postgres", "redis"])
def sleeper(request: pytest.FixtureRequest) -> Any:
    """A server that can be stopped and started."""
    return request.getfixturevalue("postgres" if request.param == "postgres" else "redis_server")


def test_a_worker_waits_calmly_for_its_server_and_begins_when_it_comes(
    sleeper: PostgresServer | RedisServer, open_app: OpenApp, launch: Launch
) -> None:
    app = open_app(sleeper.url)
    job = app.tasks["tests.faults.work.quick"].enqueue(1)
    sleeper.stop()
    worker = launch()
    until(lambda: "the store is away" in worker.log)
    began, spent = time.monotonic(), worker.processor_seconds()
    threading.Event().wait(3)
    used = (worker.processor_seconds() - spent) / (time.monotonic() - began)
    said = worker.said_at()

    sleeper.start()
    back = time.monotonic()
    until(lambda: app.jobs.get(job).state == "done")

    print(f"work {time.monotonic() - back:.2f} s after the return, {used:.0%} of a processor while it waited")
    assert sleeper.url.partition("?")[0] in worker.log
    assert "cannot be reached" in worker.log
    assert busiest_second(said[2:]) <= 2  # two lines say hello
    assert used < 0.2
    worker.stop()
    assert worker.wait() == 0


def test_a_worker_that_waits_can_be_told_to_stop(tmp_path: Path, open_app: OpenApp, launch: Launch) -> None:
    open_app(f"unix://{tmp_path}/nobody.sock")
    worker = launch()
    until(lambda: "the store is away" in worker.log)

    worker.stop()

    assert worker.wait() == 0


def demote(server: PostgresServer) -> None:
    """Make it a standby, which can be read and not written."""
    server.stop()
    (server.cluster / "standby.signal").touch()
    server.start()


def promote(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("select pg_promote()")


@pytest.fixture
def postgres_again(postgres: PostgresServer) -> Generator[PostgresServer]:
    """Ends as a primary, whatever the test did to it."""
    yield postgres
    if (postgres.cluster / "standby.signal").exists():
        promote(postgres)


def test_a_worker_waits_for_a_standby_to_be_promoted(
    postgres_again: PostgresServer, open_app: OpenApp, launch: Launch
) -> None:
    app = open_app(postgres_again.url)
    job = app.tasks["tests.faults.work.quick"].enqueue(1)
    demote(postgres_again)
    worker = launch()
    until(lambda: "the store is away" in worker.log)
    with pytest.raises(StoreUnavailable, match="point the URL at the primary"):
        app.tasks["tests.faults.work.quick"].enqueue(2)

    promote(postgres_again)
    until(lambda: app.jobs.get(job).state == "done")

    assert "point the URL at the primary" in worker.log


# --- refused --------------------------------------------------------------------------------------


@pytest.fixture
def roles(postgres: PostgresServer) -> None:
    """One with a password, one without rights."""
    rules = postgres.cluster / "pg_hba.conf"
    if "secured" in rules.read_text():
        return
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute("create role secured login password 'right'")
        admin.execute("create role powerless login")
        rules.write_text("local all secured scram-sha-256\n" + rules.read_text())
        admin.execute("select pg_reload_conf()")


@pytest.mark.parametrize(
    ("part", "instead", "remedy"),
    [
        ("postgres@", f"secured:{SECRET}@", "Correct the user or the password"),
        ("postgres@", "stranger@", "Create the database or the role"),
        ("/postgres?", "/nowhere?", "Create the database"),
        ("postgres@", "powerless@", "Grant the role CREATE on the database"),
    ],
    ids=["password", "role", "database", "rights"],
)
@pytest.mark.usefixtures("roles")
def test_what_postgres_refuses_ends_the_worker_with_the_remedy(
    postgres: PostgresServer, open_app: OpenApp, launch: Launch, part: str, instead: str, remedy: str
) -> None:
    open_app(postgres.url.replace(part, instead, 1))

    worker = launch()

    assert worker.wait() == 3
    assert remedy in worker.log
    assert SECRET not in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(
    ("options", "user", "remedy"),
    [
        (("--requirepass", "right"), "", "wants a password. Put it into the URL"),
        (("--requirepass", "right"), f":{SECRET}@", "Correct them in the URL"),
        (("--user", "weak", "on", ">right", "~*", "+ping"), "weak:right@", "ACL SETUSER"),
        (("--maxmemory-policy", "allkeys-lru"), "", "CONFIG SET maxmemory-policy noeviction"),
    ],
    ids=["no password", "password", "rights", "eviction"],
)
def test_what_redis_refuses_ends_the_worker_with_the_remedy(
    tmp_path: Path, open_app: OpenApp, launch: Launch, options: tuple[str, ...], user: str, remedy: str
) -> None:
    with private_server(tmp_path, *options) as server:
        open_app(f"unix://{user}{server.socket}")

        worker = launch()

        assert worker.wait() == 3
    assert remedy in worker.log
    assert SECRET not in worker.log
    assert "Traceback" not in worker.log


PROMISING = """
from duly import Duly
app = Duly()
@app.task(delivery="at_most_once")
def charge() -> None: ...
"""


def duly(*words: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "duly", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_worker_does_not_start_on_a_server_that_cannot_keep_its_promise(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROMISING)
    with private_server(tmp_path, "--appendonly", "yes") as server:
        refused = duly("worker", "shop:app", "--burst", folder=tmp_path, DULY_URL=server.url)
        waived = duly(
            "worker", "shop:app", "--burst", folder=tmp_path, DULY_URL=f"{server.url}?waive_appendfsync=1"
        )

    assert refused.returncode == 2
    assert "CONFIG SET appendonly yes and appendfsync always" in refused.stderr
    assert "?waive_appendfsync=1" in refused.stderr
    assert "'everysec'" in refused.stderr
    assert waived.returncode == 0


@pytest.mark.parametrize(("driver", "url"), [("psycopg", "postgresql://db/x"), ("redis", "redis://db/0")])
def test_without_its_driver_a_worker_says_what_to_install(tmp_path: Path, driver: str, url: str) -> None:
    (tmp_path / "shop.py").write_text(PROMISING)
    (tmp_path / f"{driver}.py").write_text("raise ImportError('not installed')")

    told = duly("worker", "shop:app", folder=tmp_path, DULY_URL=url)

    extra = {"psycopg": "postgres", "redis": "redis"}[driver]
    assert told.returncode == 2
    assert f'pip install "duly[{extra}]"' in told.stderr


# --- commands and callers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["postgresql://ann:sw0rdfish@127.0.0.1:1/shop", "redis://:sw0rdfish@127.0.0.1:1/0"]
)
def test_a_command_says_at_once_that_the_server_is_away(url: str) -> None:
    began = time.monotonic()

    told = duly("status", "--url", url)

    assert told.returncode == 3
    assert time.monotonic() - began < 30  # not the half minute for which a worker is patient
    assert "127.0.0.1:1" in told.stderr
    assert "cannot be reached" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert SECRET not in told.stderr


@pytest.fixture
def silent_port() -> Generator[int]:
    """Takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    "form", ["postgresql://127.0.0.1:{}/shop?connect_timeout=2", "redis://127.0.0.1:{}/0?timeout=2s"]
)
def test_enqueueing_on_a_server_that_says_nothing_ends_in_time(
    silent_port: int, open_app: OpenApp, form: str
) -> None:
    app = open_app(form.format(silent_port))
    began = time.monotonic()

    with pytest.raises(StoreUnavailable):
        app.tasks["tests.faults.work.quick"].enqueue(1)

    assert time.monotonic() - began < 30


def test_a_frozen_server_is_given_up_and_used_again_when_it_goes_on(
    redis_server: RedisServer, open_app: OpenApp
) -> None:
    app = open_app(f"{redis_server.url}?timeout=4s")
    task = app.tasks["tests.faults.work.quick"]
    task.enqueue(1)
    os.kill(redis_server.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            task.enqueue(2)
        took = time.monotonic() - began
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)

    assert took < 30
    assert task.enqueue(3).state() == "waiting"
    assert isinstance(app.store, RedisStore)
