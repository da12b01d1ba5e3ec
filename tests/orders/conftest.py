"""One project per queue and test module: a cloud, a worker, and a process to ask."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.orders.project import Console, Project, running_cloud
from tests.servers import postgres_url
from tests.servers_redis import private_server


@pytest.fixture(scope="module")
def cloud() -> Iterator[Any]:
    with running_cloud() as cloud:
        yield cloud


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="duly-orders-") as folder:
        yield Path(folder)


class Projects:
    """Those of a module, each made when first asked for: tests come in random order."""

    def __init__(self, folder: Path, cloud: Any) -> None:
        self._folder = folder
        self._cloud = cloud
        self._made: dict[str, tuple[Project, Console]] = {}
        self._stack = ExitStack()

    def get(self, kind: str) -> tuple[Project, Console]:
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return self._made[kind]

    def _make(self, kind: str) -> tuple[Project, Console]:
        project = Project(self._folder / kind, self._cloud)
        project.folder.mkdir(exist_ok=True)
        if kind == "postgres":
            project.environment["ORDERS_DATABASE"] = self._stack.enter_context(fresh_database("orders"))
        if kind in ("celery", "redis"):
            server = self._stack.enter_context(private_server(project.folder))
            project.queue = "celery" if kind == "celery" else server.url
            project.environment["ORDERS_BROKER"] = f"redis+socket://{server.socket}"
        project.migrate()
        self._stack.callback(project.stop)
        console = project.console()
        self._stack.callback(console.close)
        return project, console

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def projects(folder: Path, cloud: Any) -> Iterator[Projects]:
    made = Projects(folder, cloud)
    yield made
    made.close()


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("celery", marks=pytest.mark.redis),
    ]
)
def project(request: pytest.FixtureRequest, projects: Projects) -> Iterator[Project]:
    """The same project on Duly with jobs in PostgreSQL, as the requirement has it, and on Celery."""
    project = projects.get(request.param)[0]
    yield project
    print(project.log[-3000:])  # shown with a test that failed


@pytest.fixture
def console(project: Project, projects: Projects) -> Console:
    """A process of that project, to be asked."""
    return projects.get(project.folder.name)[1]


@pytest.fixture
def worker(project: Project) -> Project:
    """The project with a worker that serves it as it is."""
    project.serve()
    return project


@contextmanager
def fresh_database(name: str) -> Generator[str]:
    name = f"{name}_{os.getpid()}"
    with psycopg.connect(postgres_url(), autocommit=True) as server:
        server.execute(f"create database {name}".encode())
        try:
            yield urlunsplit(urlsplit(postgres_url())._replace(path=f"/{name}"))
        finally:
            server.execute(f"drop database {name} with (force)".encode())
