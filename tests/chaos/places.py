"""Where the jobs of a chaos run live: a private server or file, and what can be done to it.

Every destructive act is aimed by identity: the server is the process this run started, in a directory of its
own.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import redis
from tests.chaos.proxy import Proxy
from tests.chaos.tables import EFFECTS, ORDERS
from tests.servers import PostgresServer
from tests.servers_redis import RedisServer

DISK: Final = "48m"


class Place(ABC):
    """A store under attack."""

    true_url = ""
    """For the runner's own looks."""
    has_orders = False
    """Whether the producers' own table lies beside the jobs."""
    lacks: frozenset[str] = frozenset()
    """Faults that cannot be had here."""

    @abstractmethod
    def start(self) -> None: ...

    def url_for(self, road: int) -> str:
        """For a worker or a producer: through the proxy, where there is one."""
        del road
        return self.true_url

    @abstractmethod
    def strike(self, kind: str, seconds: float, strength: float, road: int) -> None:
        """Perform one fault, from its beginning to its end."""

    @abstractmethod
    def stop(self) -> None: ...

    def rows(self, table: str) -> list[list[Any]] | None:
        """What the application's own table holds; None where it has none."""
        return None


class SqlitePlace(Place):
    """A file, on a small disk of its own if the system grants one."""

    def __init__(self, folder: Path, *, is_shared: bool) -> None:
        self._disk = folder / "disk"
        self.has_orders = is_shared
        self.true_url = f"sqlite:///{self._disk / 'duly.db'}"

    def start(self) -> None:
        self._disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self._disk)]
        self._is_mounted = shutil.which("mount") is not None and _succeeds(command)
        if not self._is_mounted:
            self.lacks = frozenset({"fill_disk"})
        if self.has_orders:
            with sqlite3.connect(self._disk / "duly.db") as connection:
                connection.execute(ORDERS)
                connection.execute(EFFECTS)
            connection.close()

    def strike(self, kind: str, seconds: float, strength: float, road: int) -> None:
        assert kind == "fill_disk", kind
        filler = self._disk / "filler"
        try:
            for size in (1 << 20, 1 << 12):  # to the last page
                with suppress(OSError), filler.open("ab", buffering=0) as file:
                    while file.write(bytes(size)) == size:
                        pass
            time.sleep(seconds)
        finally:
            filler.unlink(missing_ok=True)

    def stop(self) -> None:
        """The database is kept with the other files."""
        if self._is_mounted:
            for file in self._disk.glob("duly.db*"):
                if file.is_file():
                    shutil.copy(file, self._disk.parent)
            subprocess.run(["umount", "-l", str(self._disk)], capture_output=True, check=False)

    def rows(self, table: str) -> list[list[Any]] | None:
        if not self.has_orders:
            return None
        connection = sqlite3.connect(self._disk / "duly.db")
        rows = connection.execute(f"select * from {table}").fetchall()
        connection.close()
        return [list(row) for row in rows]


class ServerPlace(Place):
    """A server behind a proxy."""

    def __init__(self, socket: Path, roads: int) -> None:
        self.proxy = Proxy(socket, roads)

    def strike(self, kind: str, seconds: float, strength: float, road: int) -> None:
        proxy, share = self.proxy, 0.3 + 0.7 * strength
        match kind:
            case "delay":
                proxy.delay(0.02 + 0.2 * strength)
                time.sleep(seconds)
                proxy.delay(0)
            case "stall":
                proxy.stall(on=True)
                time.sleep(seconds)
                proxy.stall(on=False)
            case "partition":
                proxy.stall(on=True, road=road)
                time.sleep(seconds)
                proxy.stall(on=False, road=road)
            case "refuse":
                proxy.refuse(on=True)
                proxy.cut(share)
                time.sleep(seconds)
                proxy.refuse(on=False)
            case "cut":
                proxy.cut(share)
            case "half_close":
                proxy.half_close(share)
            case "lose_answers":
                proxy.lose_answers(share)
                time.sleep(0.4)
            case _:
                self.strike_server(kind, seconds, strength)

    def calm(self) -> None:
        """All knobs back."""
        self.proxy.delay(0)
        self.proxy.stall(on=False)
        self.proxy.refuse(on=False)

    @abstractmethod
    def strike_server(self, kind: str, seconds: float, strength: float) -> None: ...


class PostgresPlace(ServerPlace):
    """A PostgreSQL of its own."""

    has_orders = True

    def __init__(self, folder: Path, roads: int) -> None:
        self._server = PostgresServer(folder)
        super().__init__(folder / ".s.PGSQL.5432", roads)
        self.true_url = self._server.url

    def start(self) -> None:
        self._server.folder.mkdir(exist_ok=True)
        self._server.create()
        self._server.start()
        self.proxy.start()
        with psycopg.connect(self.true_url, autocommit=True) as connection:
            connection.execute(ORDERS)
            connection.execute(EFFECTS)

    def url_for(self, road: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.proxy.ports[road]}/postgres"

    def strike_server(self, kind: str, seconds: float, strength: float) -> None:
        match kind:
            case "restart":
                self._server.stop(signal.SIGQUIT if strength < 0.7 else signal.SIGINT)
                time.sleep(seconds)
                self._server.start()
            case "end_sessions":
                with suppress(psycopg.Error), psycopg.connect(self.true_url, autocommit=True) as connection:
                    connection.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity "
                        "where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < %s",
                        (0.3 + 0.7 * strength,),
                    )
            case _:
                raise AssertionError(kind)

    def stop(self) -> None:
        self.proxy.stop()
        self._server.stop(signal.SIGQUIT)
        shutil.rmtree(self._server.folder, ignore_errors=True)

    def rows(self, table: str) -> list[list[Any]] | None:
        with psycopg.connect(self.true_url) as connection:
            return [list(row) for row in connection.execute(f"select * from {table}".encode()).fetchall()]


class RedisPlace(ServerPlace):
    """A Redis of its own that keeps everything it acknowledged."""

    def __init__(self, folder: Path, roads: int) -> None:
        self._server = RedisServer(
            folder, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"
        )
        super().__init__(self._server.socket, roads)
        self.true_url = self._server.url

    def start(self) -> None:
        self._server.folder.mkdir(exist_ok=True)
        self._server.start()
        self.proxy.start()

    def url_for(self, road: int) -> str:
        return f"redis://127.0.0.1:{self.proxy.ports[road]}/0"

    def strike_server(self, kind: str, seconds: float, strength: float) -> None:
        with suppress(redis.RedisError):
            match kind:
                case "restart":
                    self._server.stop(signal.SIGKILL if strength < 0.7 else signal.SIGTERM)
                    time.sleep(seconds)
                    self._server.start()
                case "end_sessions":
                    self._say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                    self._say("CLIENT", "KILL", "TYPE", "pubsub")
                case "forget_scripts":
                    self._say("SCRIPT", "FLUSH")
                case "pause_server":
                    self._say("CLIENT", "PAUSE", str(round(seconds * 1000)))
                    time.sleep(seconds)
                case _:
                    raise AssertionError(kind)

    def _say(self, *words: str) -> Any:
        """Only to the server this run started: its own account of its pid must agree."""
        with self._server.client() as client:
            if client.info("server")["process_id"] == self._server.pid:
                return client.execute_command(*words)
        return None

    def stop(self) -> None:
        self.proxy.stop()
        self._server.stop(signal.SIGKILL)
        shutil.rmtree(self._server.folder, ignore_errors=True)


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_place(store: str, folder: Path, seed: int, roads: int) -> Place:
    """By name; on SQLite the seed also decides whether the application's tables lie in the same file."""
    short = Path("/tmp") / f"duly-chaos-{os.getpid()}-{store}"  # the path of a socket must be short
    match store:
        case "sqlite":
            return SqlitePlace(folder, is_shared=seed % 2 == 0)
        case "postgres":
            return PostgresPlace(short, roads)
        case "redis":
            return RedisPlace(short, roads)
        case _:
            raise SystemExit(f"no chaos for {store!r}: sqlite, postgres or redis")
