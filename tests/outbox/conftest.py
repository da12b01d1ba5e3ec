"""A user's database of each kind that can hold an outbox, and applications on Redis that use it."""

from __future__ import annotations

import importlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from tests.servers import PostgresServer, postgres_url
from tests.servers_redis import namespace_of, shared_url
from tests.stories import errands
from tests.stories.processes import Crew

from duly import Duly
from duly.outbox import open_outbox
from duly.outbox.contract import Outbox
from duly.settings import Settings
from duly.testing import VirtualClock

OPTIONS: Final[dict[str, Any]] = {"lease": "30s", "poll": "50ms", "concurrency": 4, "grace": "8s"}


@dataclass(frozen=True)
class Database:
    """The user's own, where orders are written and jobs are enqueued with them."""

    url: str
    namespace: str
    connect: Callable[[], Any]

    @property
    def slips(self) -> str:
        """The table of the outbox, for who looks past it."""
        return f"{self.namespace}_outbox{'_' if self.url.startswith('sqlite') else '.'}slip"

    def execute(self, text: str) -> list[Any]:
        with closing(self.connect()) as connection:
            cursor = connection.execute(text)
            rows: list[Any] = cursor.fetchall() if cursor.description else []
            connection.commit()
            return rows


def _sqlite(folder: Path) -> Database:
    path = folder / "shop.db"
    made = Database(f"sqlite:///{path}", namespace_of(folder), lambda: sqlite3.connect(path, timeout=60))
    made.execute("create table orders (id integer)")
    return made


def _postgres(folder: Path) -> Database:
    name = namespace_of(folder)
    options = f"-c search_path={name}_shop"
    made = Database(postgres_url(), name, lambda: psycopg.connect(postgres_url(), options=options))
    made.execute(f"create schema {name}_shop")
    made.execute("create table orders (id integer)")
    return made


DATABASES: Final = {"sqlite": _sqlite, "postgres": _postgres}


@pytest.fixture(params=list(DATABASES))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Database]:
    made = DATABASES[request.param](tmp_path)
    yield made
    if made.url.startswith("postgresql"):
        made.execute(f"drop schema {made.namespace}_shop cascade")
        made.execute(f"drop schema if exists {made.namespace}_outbox cascade")


@pytest.fixture
def connection(database: Database) -> Generator[Any]:
    """A user's connection, which begins a transaction by itself."""
    with closing(database.connect()) as made:
        yield made


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def outbox(database: Database, clock: VirtualClock) -> Generator[Outbox]:
    made = open_outbox(Settings(outbox=database.url, namespace=database.namespace), clock)
    assert made is not None
    made.open()
    yield made
    made.close()


OpenApp = Callable[..., Duly]


@pytest.fixture
def open_app(database: Database) -> Generator[OpenApp]:
    """Applications on the session's Redis with the outbox in the user's database."""
    with ExitStack() as stack:

        def make(url: str | None = None, **options: Any) -> Duly:
            given: dict[str, Any] = {**OPTIONS, "namespace": database.namespace, "outbox": database.url}
            app = Duly(url or shared_url(), **{**given, **options})
            stack.callback(app.close)
            return app

        yield make


@pytest.fixture
def app(open_app: OpenApp) -> Duly:
    made = open_app()
    made.open()
    return made


@pytest.fixture
def own_server() -> Generator[PostgresServer]:
    """A PostgreSQL server that a test may stop and start again."""
    folder = Path(tempfile.mkdtemp(prefix="duly-own-"))
    made = PostgresServer(folder)
    made.create()
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def crew(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Crew]:
    """Workers in processes of their own, on the session's Redis."""
    variables = {**OPTIONS, "url": shared_url(), "outbox": database.url}
    for name, value in {**variables, "namespace": database.namespace}.items():
        monkeypatch.setenv(f"DULY_{name.upper()}", str(value))
    monkeypatch.setenv("STORY_FOLDER", str(tmp_path))
    importlib.reload(errands)
    errands.app.open()
    made = Crew(errands.app, tmp_path)
    yield made
    made.end()
    errands.app.close()
