"""Running operations against a file: opening it, choosing how to write, surviving forks.

The operations themselves know nothing of this, and this knows nothing of jobs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

from duly.clock import Clock, SystemClock
from duly.errors import StoreBusy, StoreRefused
from duly.shield import shielded
from duly.stores.contract import Doorbell
from duly.stores.drive import Operation
from duly.stores.rings import ring_after_commit
from duly.stores.sqlite.address import Mode, check_namespace, parse
from duly.stores.sqlite.caller import CallersConnection
from duly.stores.sqlite.connection import connect, spelling
from duly.stores.sqlite.desk import Desk
from duly.stores.sqlite.doorbell import HAS_SOCKETS, PollingBell, Ringer, SocketBell, bells_of
from duly.stores.sqlite.faults import check_build, check_place, explained, is_busy
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.journal import has_reset_race
from duly.stores.sqlite.migrate import read_schema
from duly.stores.sqlite.opening import Opened, Opening, sqlite_version
from duly.stores.sqlite.turns import refuse_second_writer
from duly.stores.tables.migrations import Migration, Schema, check_schema, missing

T = TypeVar("T")

PATIENCE: Final = timedelta(seconds=5)

_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


class Driver:
    """One file, opened by each process at its first use."""

    def __init__(
        self,
        url: str,
        *,
        migrations: Sequence[Migration],
        clock: Clock | None = None,
        namespace: str = "duly",
        patience: timedelta = PATIENCE,
    ) -> None:
        self.url = url
        self.address = self._address = parse(url)
        self.spell = self._spell = spelling(check_namespace(namespace))
        self._migrations = tuple(migrations)
        self.patience = self._patience = patience
        self._steps = Opening(self._address, self._spell, self._migrations, clock or SystemClock(), patience)
        self._opening = threading.Lock()
        self._desk: Desk | None = None
        self._opened: Opened | None = None
        self._refusal: str | None = None
        self._is_forking = False
        self._polling_bells: weakref.WeakSet[PollingBell] = weakref.WeakSet()
        self._ringer = Ringer(bells_of(self._address.path))
        _drivers.add(self)

    @property
    def path(self) -> str:
        """The file, absolute and free of links."""
        return self._address.path

    @property
    def queued(self) -> int:
        """How many operations of this process wait for their turn to write."""
        desk = self._desk
        return 0 if desk is None else desk.writer.queued

    # Opening and closing.

    def open(self) -> None:
        """Create or check the file and bring its tables up to date. The first operation does it too."""
        self._ready()

    def close(self) -> None:
        """Write the log back and let go of the file; a later operation opens it again."""
        with self._opening:
            desk, self._desk = self._desk, None
        if desk is not None and desk.pid == os.getpid():
            desk.close()

    def refuse(self, reason: str) -> None:
        """In a process that must not use the file: every operation says why."""
        self._refusal = reason

    def _ready(self) -> Desk:
        desk = self._desk
        if desk is not None and desk.pid == os.getpid():
            return desk
        with self._opening:
            if self._desk is not None and self._desk.pid != os.getpid():
                self._drop_inherited(self._desk)
            if self._refusal is not None:
                raise StoreRefused(self._refusal)
            if self._desk is None:
                self._desk = self._open_desk()
            return self._desk

    def _open_desk(self) -> Desk:
        check_build(sqlite_version())
        check_place(self.path)
        lock = self._lock()
        try:
            self._opened = self._steps.look()
            if self._opened is None:
                with lock.held(self._patience):
                    self._opened = self._steps.run()
            self._steps.warn(self._opened)
            return Desk(self._address, self._spell, self._opened.mode, lock, self._patience)
        except BaseException as error:
            lock.close()
            if isinstance(error, sqlite3.Error):
                raise self._why_closed(error) from error
            raise

    def _why_closed(self, error: sqlite3.Error) -> Exception:
        if is_busy(error):
            return StoreBusy(
                f"{self.path} must be prepared before its first use, and another connection is writing. "
                "If that is a transaction of your own, call open() before it begins."
            )
        return explained(error, self.path, "open")

    # Forking: no handle may be open meanwhile, see connection.py.

    def before_fork(self) -> None:
        """Close every handle, once what is in progress has ended."""
        self._is_forking = self._opening.acquire(timeout=self._patience.total_seconds())
        for bell in list(self._polling_bells):
            bell.rest()
        if self._desk is not None and self._desk.pid == os.getpid():
            self._desk.rest()

    def after_fork_in_parent(self) -> None:
        """Go on; handles open again at need. To be told twice does no harm."""
        if self._desk is not None and self._desk.pid == os.getpid():
            self._desk.resume()
        if self._is_forking:
            self._is_forking = False
            self._opening.release()

    def after_fork_in_child(self) -> None:
        """Forget the parent's locks and threads, and start afresh at the next use."""
        self._opening = threading.Lock()
        self._ringer = Ringer(bells_of(self.path))
        if self._desk is not None:
            self._drop_inherited(self._desk)

    def _drop_inherited(self, desk: Desk) -> None:
        self._desk = None
        desk.abandon()
        if not desk.has_rested:
            self._refusal = (
                f"{self.path} was in use when process {desk.pid} forked this one; SQLite cannot serve both. "
                "Call close() before forking, or start the process by spawning instead."
            )

    # Running.

    def run(self, operation: Operation[T]) -> T:
        """Perform in one transaction, shared with whatever other threads write at the moment."""
        return shielded(self._write_or_read, operation)  # a body may be struck in here

    def _write_or_read(self, operation: Operation[T]) -> T:
        if operation.writes:
            refuse_second_writer(self._address.path, operation.name)
        desk = self._ready()
        return desk.writer.write(operation) if operation.writes else desk.read(operation)

    async def arun(self, operation: Operation[T]) -> T:
        """The same without holding up the event loop."""
        if operation.writes:
            refuse_second_writer(self.path, operation.name)
        desk = self._desk
        if desk is None or desk.pid != os.getpid():
            desk = await asyncio.to_thread(self._ready)
        if operation.writes:
            return await desk.writer.awrite(operation)
        return await desk.aread(operation)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction; it commits or vanishes with it."""
        self._ready()
        theirs = CallersConnection(connection, self.path, self._spell, mute=self._mutes_callers())
        value = theirs.run(operation)
        if operation.writes:
            ring_after_commit(connection, self.ring, has_committed=theirs.has_committed)
        return value

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """The same, in this thread: a connection of the sqlite3 module belongs to the one that uses it."""
        return self.run_on(connection, operation)

    def after_commit(self, commits: int) -> None:
        """See to the log after commits that were none of ours. Who calls has opened us, and has the turn."""
        desk = self._desk
        if desk is not None:
            desk.after_commit(commits)

    def _mutes_callers(self) -> bool:
        return self._opened is not None and self._opened.journal.mutes_callers

    # The doorbell.

    def ring(self) -> None:
        """Wake the listeners of all processes."""
        self._ringer.ring()

    def doorbell(self) -> Doorbell:
        """A listener of its own for whoever asks."""
        if HAS_SOCKETS:
            with suppress(OSError):  # some mounts hold no sockets
                bell = SocketBell(bells_of(self.path))
                self._ringer.look_again()
                return bell
        self._ready()
        polling = PollingBell(lambda: connect(self._address, reads_only=True))
        self._polling_bells.add(polling)
        return polling

    # Migrations, and what `duly doctor` shows.

    def pending(self) -> list[str]:
        """The migrations this code ships and the file has not seen; nothing is changed, not even created."""
        if not os.path.exists(self.path):
            return [step.title for step in self._migrations]
        return [step.title for step in missing(self._read_schema(), self._migrations)]

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` when the file was migrated for newer code since we opened it."""
        check_schema(self._read_schema(), self._migrations, self.path)

    def migrate(self) -> list[str]:
        """Run every pending migration, those that take something away included, and name them."""
        self._ready()
        with self._opening, closing(self._lock()) as lock, lock.held(self._patience):
            try:
                return self._steps.contract()
            except sqlite3.Error as error:
                raise explained(error, self.path, "migrate") from error

    def describe(self) -> dict[str, str]:
        """What a person should know about this file."""
        self._ready()
        opened = self._opened
        assert opened is not None
        schema = self._read_schema()
        return {
            "file": self.path,
            "file owner": "duly" if opened.owns_file else "an application",
            "size": _size(self.path),
            "log size": _size(self.path + "-wal"),
            "sqlite": sqlite3.sqlite_version,
            "journal": opened.mode.value,
            "synchronous": self._address.durability.value,
            "wal-reset race": "yes" if has_reset_race(sqlite_version()) else "no",
            "exposed to it": "yes" if opened.journal.is_exposed and opened.mode is Mode.WAL else "no",
            "schema": str(max(schema.applied)) if schema else "none",
            "bell": "sockets" if HAS_SOCKETS else "polling",
        }

    def _read_schema(self) -> Schema | None:
        try:
            with self._opening, closing(connect(self._address, reads_only=True)) as connection:
                return read_schema(connection, self._spell)
        except sqlite3.Error as error:
            raise explained(error, self.path, "read the schema") from error

    def _lock(self) -> FileLock:
        return FileLock(self.path + "-duly.lock")


def _size(path: str) -> str:
    try:
        return f"{os.path.getsize(path):,} bytes"
    except OSError:
        return "none"


def _before_fork() -> None:
    for driver in list(_drivers):
        driver.before_fork()


def _after_fork_in_parent() -> None:
    for driver in list(_drivers):
        driver.after_fork_in_parent()


def _after_fork_in_child() -> None:
    for driver in list(_drivers):
        driver.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
    # A signal that comes while the process forks raises in the first of these; then nobody could write.
    os.register_at_fork(after_in_parent=_after_fork_in_parent)
