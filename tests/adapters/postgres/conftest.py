"""What these tests share: a schema of their own on the run's server, and servers that may be killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import put, request
from tests.servers import PostgresServer, postgres_schema, postgres_url

from duly.stores.postgres import PostgresStore


@pytest.fixture
def url() -> str:
    return postgres_url()


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return postgres_schema(tmp_path)


@pytest.fixture
def store(url: str, schema: str) -> Iterator[PostgresStore]:
    """On the server's own clock."""
    made = PostgresStore(url, namespace=schema)
    made.open()
    yield made
    made.close()


@pytest.fixture
def other(url: str, schema: str) -> Iterator[PostgresStore]:
    """Another process, as it were, on the same schema."""
    made = PostgresStore(url, namespace=schema)
    made.open()
    yield made
    made.close()


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection]:
    """A user's connection."""
    with psycopg.connect(url) as made:
        yield made


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop, kill and restart."""
    folder = Path(tempfile.mkdtemp(prefix="duly-own-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def standby() -> Iterator[PostgresServer]:
    """A server that follows another and may only be read, with one job in its schema."""
    folder = Path(tempfile.mkdtemp(prefix="duly-standby-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    store = PostgresStore(server.url)
    put(store, request())
    store.close()
    server.stop()
    (server.cluster / "standby.signal").touch()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def plain_role(url: str) -> Iterator[str]:
    """A role that may log in and nothing else."""
    name = f"plain_{os.getpid()}"
    role = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(role))
        yield name
        admin.execute(sql.SQL("drop owned by {}").format(role))
        admin.execute(sql.SQL("drop role {}").format(role))
