"""Several real processes on one SQLite file: they start at once, write at once, fork, freeze and die."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from tests.adapters.sqlite_programs import put_one

from duly.errors import StoreUnavailable
from duly.stores.contract import Page, Selection
from duly.stores.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs fork, freeze and are killed")


class Program:
    """One child, spoken to by lines."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.adapters.sqlite_programs", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def is_silent(self) -> bool:
        """Whether nothing is there to be read within a moment."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], 0.2)[0]

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Start(Protocol):
    def __call__(self, *arguments: str) -> Program: ...


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Program] = []

    def start_one(*arguments: str) -> Program:
        program = Program(*arguments)
        started.append(program)
        return program

    yield start_one
    for program in started:
        program.end()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "duly.db")


@pytest.fixture
def url(path: str) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str) -> Iterator[SqliteStore]:
    with closing(SqliteStore(url)) as made:
        yield made


def is_sound(path: str) -> bool:
    with closing(sqlite3.connect(path)) as outside:
        return outside.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_eight_processes_may_open_a_new_file_at_once(start: Start, url: str, path: str) -> None:
    programs = [start("open", url) for _ in range(8)]
    for program in programs:
        assert program.says() == "ready"

    for program in programs:
        program.go()
    ids = {program.says() for program in programs}

    assert len(ids) == 8
    assert "" not in ids
    assert is_sound(path)
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("select count(*) from duly_schema").fetchone() == (1,)


@pytest.mark.parametrize("options", ["", "?journal=rollback&durability=normal"])
def test_eight_processes_write_without_an_error(
    start: Start, url: str, path: str, store: SqliteStore, options: str
) -> None:
    store = SqliteStore(url + options)
    programs = [start("put", url + options, "40") for _ in range(8)]
    for program in programs:
        assert program.says() == "ready"

    for program in programs:
        program.go()
    waits = [float(program.says()) for program in programs]

    assert len(waits) == 8
    assert store.run(store.count(Selection())) == 8 * 40
    store.close()
    assert is_sound(path)


def test_a_process_that_forks_while_it_writes_stays_sound(start: Start, url: str, path: str) -> None:
    program = start("fork", url, "4")

    assert program.says() == "[0, 0, 0, 0] 0"  # every child ended well, nothing was lost or doubled
    assert is_sound(path)


@pytest.mark.chaos
def test_what_was_acknowledged_survives_the_death_of_its_process(
    start: Start, url: str, path: str, store: SqliteStore
) -> None:
    programs = [start("put_forever", url) for _ in range(4)]
    acknowledged: set[str] = set()
    for program in programs:
        acknowledged |= {program.says() for _ in range(30)}

    for program in programs:
        program.process.kill()
    for program in programs:
        assert program.process.stdout is not None
        lines = program.process.stdout.read().split("\n")  # behind what was read ahead for `says`
        program.process.wait()
        acknowledged |= set(lines[:-1])  # the last line may be half a line

    found = store.run(store.find(Selection(), Page(limit=1_000_000)))
    assert acknowledged <= {job.id for job in found}
    store.close()
    assert is_sound(path)


@pytest.mark.chaos
def test_a_process_frozen_while_it_writes_makes_others_give_up_not_hang(start: Start, url: str) -> None:
    writer = start("put_forever", url)
    assert writer.says() != ""
    with closing(SqliteStore(url, patience=timedelta(milliseconds=100))) as store:
        _freeze_in_the_lock(writer, store)

        assert store.run(store.count(Selection())) > 0  # reading goes on, in new processes too
        with pytest.raises(StoreUnavailable, match=r"duly\.lock"):
            put_one(store)

        writer.process.kill()
        writer.process.wait()
    with closing(SqliteStore(url)) as store:
        assert put_one(store)


def _freeze_in_the_lock(writer: Program, store: SqliteStore) -> None:
    """Stop the writer again and again until it happens to stand inside its transaction."""
    for _ in range(1000):
        writer.process.send_signal(signal.SIGSTOP)
        if not _can_put(store) and not _can_put(store):  # one alone may be for want of time
            return
        writer.process.send_signal(signal.SIGCONT)
        for _ in range(3):
            writer.says()
    pytest.skip("the writer was never caught in its transaction")


def _can_put(store: SqliteStore) -> bool:
    try:
        put_one(store)
    except StoreUnavailable:
        return False
    return True


def test_a_ring_crosses_processes(start: Start, url: str) -> None:
    listener, putter = start("listen", url), start("put_when_told", url)
    assert listener.says() == "ready"
    assert putter.says() == "ready"

    for _ in range(3):
        putter.go()
        assert putter.says() != ""
        assert listener.says() == "rung"

    assert listener.is_silent()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A directory another user may look into, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="duly"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


Arrange = Callable[[Path], None]


def _lock_the_folder(file: Path) -> None:
    file.chmod(0o666)


def _lock_the_file(file: Path) -> None:
    file.parent.chmod(0o777)
    file.chmod(0o444)


OPEN_AS_NOBODY = """
import encodings.ascii, os, sys  # this user may not read the standard library later on
from duly.stores.sqlite import SqliteStore
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
SqliteStore(sys.argv[1]).open()
"""


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
@pytest.mark.parametrize(
    ("arrange", "expected"),
    [(_lock_the_folder, "The directory"), (_lock_the_file, "cannot be read and written")],
)
def test_a_file_the_user_may_not_write_is_named(public_folder: Path, arrange: Arrange, expected: str) -> None:
    file = public_folder / "duly.db"
    with closing(SqliteStore(f"sqlite:///{file}")) as store:
        store.open()
    os.unlink(f"{file}-duly.lock")
    arrange(file)

    ended = subprocess.run(
        [sys.executable, "-c", OPEN_AS_NOBODY, f"sqlite:///{file}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert expected in ended.stderr
    assert "StoreRefused" in ended.stderr
    assert str(public_folder) in ended.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if not IS_ROOT or mount is None:
        pytest.skip("only root can make a small disk")
    if (
        subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], check=False).returncode
        != 0
    ):
        pytest.skip("this machine does not let us mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_refuses_new_jobs_and_keeps_the_old_ones(small_disk: Path) -> None:
    with closing(SqliteStore(f"sqlite:///{small_disk}/duly.db")) as store:
        put_one(store)
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(b"x" * 4 * 2**20)
        acknowledged = 1

        def fill() -> None:
            nonlocal acknowledged
            while True:
                put_one(store)
                acknowledged += 1

        with pytest.raises(StoreUnavailable, match=r"full|input or output"):
            fill()

        ballast.unlink()
        put_one(store)
        assert store.run(store.count(Selection())) == acknowledged + 1
    assert is_sound(f"{small_disk}/duly.db")


DJANGO = """
import sys
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}})
import django
django.setup()
from django.db import connection, transaction
from duly.ids import new_id
from duly.job import Request
from duly.stores.contract import Selection
from duly.stores.sqlite import SqliteStore

store = SqliteStore("sqlite:///" + sys.argv[1])

def put():
    return store.run_on(connection, store.offer([Request(id=new_id(), task="send", arguments="[[],{}]")]))

def count():
    return store.run(store.count(Selection()))

put()
outside_a_block = count()
with transaction.atomic():
    put()
    inside = count()
after_commit = count()
try:
    with transaction.atomic():
        put()
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
print(outside_a_block, inside, after_commit, count())
store.close()
"""


def test_a_job_joins_djangos_transaction(path: str) -> None:
    pytest.importorskip("django")

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", DJANGO, path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.split() == ["1", "1", "2", "2"], ended.stderr
