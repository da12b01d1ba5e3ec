"""Servers of a test's own, and work on them that goes on while they fail."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from tests.faults import work
from tests.faults.load import Load
from tests.servers import PostgresServer
from tests.servers_redis import RedisServer, private_server

from duly import Duly

LEASE: Final = 3.0

OpenApp = Callable[..., Duly]
OpenLoad = Callable[..., Load]
_numbers = count(1)


@pytest.fixture
def open_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[OpenApp]:
    """The application of work.py on a store, here and in every process started from here."""
    with ExitStack() as stack:

        def opened(url: str, *, lease: float = LEASE) -> Duly:
            settings = {"URL": url, "LEASE": f"{lease}s", "POLL": "200ms", "CONCURRENCY": "8"}
            settings["NAMESPACE"] = f"faults_{os.getpid()}_{next(_numbers)}"
            for name, value in settings.items():
                monkeypatch.setenv(f"DULY_{name}", value)
            monkeypatch.setenv("FAULTS_FOLDER", str(tmp_path))
            importlib.reload(work)
            stack.callback(work.app.close)
            return work.app

        yield opened


@pytest.fixture
def open_load(open_app: OpenApp, tmp_path: Path) -> Generator[OpenLoad]:
    """Workers and a producer at work on a store."""
    with ExitStack() as stack:

        def opened(url: str, *, lease: float = LEASE) -> Load:
            load = Load(open_app(url, lease=lease), tmp_path)
            stack.callback(load.end)
            load.start()
            return load

        yield opened


@pytest.fixture(scope="module")
def postgres() -> Generator[PostgresServer]:
    """A server that a test may stop, kill and restart."""
    folder = Path(tempfile.mkdtemp(prefix="duly-faults-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def redis_server(tmp_path: Path) -> Generator[RedisServer]:
    """A server that writes everything down before it answers."""
    with private_server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server
