"""Private servers for a run, as in production: PostgreSQL that waits for the disk, Redis without AOF.

The programs come with the wheels that the tests use. Both listen on the loopback interface, on ports of their
own, so that every client reaches them in the same way. They are stopped by their process ids.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import psycopg
import redis
from tests.servers import PLACE, PostgresServer
from tests.servers_redis import RedisServer

DURABLE: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "300",
    "listen_addresses": "127.0.0.1",
}
LOG_ALL: Final = "alter database {} set log_statement = 'all'"


class Postgres:
    """A durable server, and databases in it that are made and dropped for each piece of work."""

    def __init__(self, server: PostgresServer, port: int) -> None:
        self._server = server
        self._port = port
        self._templates: set[str] = set()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def tell(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements[:-1]:
                connection.execute(statement.encode())
            found = connection.execute(statements[-1].encode())
            return found.fetchall() if found.description else []

    def has_template(self, name: str) -> bool:
        return name in self._templates

    def make(self, name: str) -> str:
        """An empty database."""
        self.drop(name)
        self.tell(f'create database "{name}"')
        return self.url(name)

    def keep(self, name: str) -> None:
        """What a system set up in its database is how it finds the next ones."""
        self.drop(f"{name}_template")
        self.tell(f'alter database "{name}" rename to "{name}_template"')
        self._templates.add(name)

    def copy(self, name: str) -> str:
        self.drop(name)
        self.tell(f'create database "{name}" template "{name}_template"')
        return self.url(name)

    def drop(self, name: str) -> None:
        self.tell(f'drop database if exists "{name}" with (force)')

    def log_statements(self, name: str) -> None:
        """From the next connection on, every statement is a line of the log."""
        self.tell(LOG_ALL.format(f'"{name}"'))

    def statements(self) -> int:
        """How many statements were logged so far."""
        text = (self._server.folder / "log").read_text(errors="replace")
        return text.count("LOG:  statement:") + text.count("LOG:  execute ")

    @property
    def version(self) -> str:
        return str(self.tell("show server_version")[0][0])


class Redis:
    """A server that keeps nothing on disk, as most queues find it."""

    def __init__(self, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}/0"
        self._client: Any = redis.Redis(port=port)

    def empty(self) -> None:
        self._client.flushall()

    def statements(self) -> int:
        """How often it was spoken to: what a script does within is not counted."""
        return int(self._client.info("stats")["total_reads_processed"])

    @property
    def version(self) -> str:
        return str(self._client.info("server")["redis_version"])


@contextlib.contextmanager
def postgres() -> Generator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="duly-bench-", dir=PLACE))  # short, for its socket
    os.chmod(folder, 0o755)
    port = free_port()
    server = PostgresServer(folder, {**DURABLE, "port": str(port)})
    try:
        server.create()
        server.start()
        yield Postgres(server, port)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def redis_server() -> Generator[Redis]:
    folder = Path(tempfile.mkdtemp(prefix="duly-bench-", dir=PLACE))
    port = free_port()
    server = RedisServer(folder, "--port", str(port), "--bind", "127.0.0.1", "--appendonly", "no")
    try:
        server.start()
        yield Redis(port)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
