"""Which journal a file gets, and when its log is written back.

SQLite 3.7.0 to 3.51.2 can lose committed writes in WAL mode: a checkpoint that runs while another
connection commits and restarts the log may mark frames as written back that were not. The decision
of docs/adr/0001-sqlite-journal.md: no connection of ours checkpoints by itself, and a checkpoint runs
only while we hold the write lock, so that nobody can commit beside it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from dataclasses import dataclass
from typing import Final

from duly.stores.sqlite.address import Mode

Version = tuple[int, int, int]

FIRST_AFFECTED: Final[Version] = (3, 7, 0)
FIRST_FIXED: Final[Version] = (3, 51, 3)
BACKPORTED: Final[dict[tuple[int, int], int]] = {(3, 44): 6, (3, 50): 7}

COMMITS_BETWEEN: Final = 256
"""About a thousand pages of single requests: what SQLite itself would wait for."""
GROWTH_BETWEEN: Final = 4 * 2**20
COMMITS_UNSEEN: Final = 16
CHANGES_UNSEEN: Final = 250
"""Commits, or changed rows, after which the length of the log is looked at. Linux gives the next write to a
file that was looked at a time of its own, and some file systems put that on the disk with each commit, which
took a quarter longer for it."""
SIZE_KEPT: Final = 16 * 2**20
"""A restarted log longer than this is cut. Below it the file keeps its length, because a commit that
need not extend the file takes half the time."""
SIZE_ALARMING: Final = 64 * 2**20

_log = logging.getLogger("duly.sqlite")


def has_reset_race(version: Version) -> bool:
    """Whether this build of SQLite may lose committed writes in WAL mode."""
    if not FIRST_AFFECTED <= version < FIRST_FIXED:
        return False
    repaired_from = BACKPORTED.get(version[:2])
    return repaired_from is None or version[2] < repaired_from


@dataclass(frozen=True, slots=True)
class Journal:
    """How to treat one file."""

    mode: Mode | None
    """None: the file belongs to an application and keeps the mode it has."""
    is_exposed: bool
    """In WAL mode, connections that are not ours could meet the race."""
    mutes_callers: bool
    """A caller's connection to our own file must not checkpoint by itself either."""

    def warning(self, path: str, found: Mode) -> str | None:
        """What the owner of a shared file should know, once."""
        if found is Mode.WAL and self.is_exposed:
            return (
                f"{path} is shared with an application in WAL mode, where SQLite {sqlite3.sqlite_version} "
                "can lose committed writes when processes write and checkpoint at once. "
                "Use SQLite 3.51.3 or newer, or give Duly a file of its own: sqlite:///duly.db."
            )
        if found is Mode.WAL or self.mode is not None:
            return None
        return (
            f"{path} is shared with an application and keeps its rollback journal: safe, but each commit is "
            "slow and blocks readers. Give Duly a file of its own, sqlite:///duly.db, or add ?journal=wal."
        )


def choose_journal(version: Version, *, owns_file: bool, wanted: Mode | None) -> Journal:
    """WAL on our own file, whatever the build; an application's file stays as it is unless asked."""
    affected = has_reset_race(version)
    mode = wanted or (Mode.WAL if owns_file else None)
    return Journal(mode=mode, is_exposed=affected and not owns_file, mutes_callers=affected and owns_file)


def mode_of(connection: sqlite3.Connection) -> Mode:
    """The mode the file is in."""
    (name,) = connection.execute("PRAGMA journal_mode").fetchone()
    return Mode.WAL if name == "wal" else Mode.ROLLBACK


def switch_mode(connection: sqlite3.Connection, mode: Mode) -> bool:
    """Bring the file into a mode; false when another connection is in the way."""
    if mode_of(connection) is mode:
        return True
    try:
        connection.execute(f"PRAGMA journal_mode={'wal' if mode is Mode.WAL else 'delete'}").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
    return mode_of(connection) is mode


class Checkpointer:
    """Writes the log back into the file. The caller holds the file lock; `writer` is idle.

    Two connections, because SQLite refuses to checkpoint inside a transaction: one holds the write
    lock, the other does the work. No commit of anybody can fall into it, not even of a connection that
    knows nothing of our file lock.
    """

    def __init__(self, writer: sqlite3.Connection, second: sqlite3.Connection, path: str) -> None:
        self._writer = writer
        self._second = second
        self._path = path
        self._log_path = path + "-wal"
        self._commits = 0
        self._unseen = 0
        """Commits since the last look at the length of the log."""
        self._changes = writer.total_changes
        self._mark = self.log_size()
        self._has_warned = False

    def log_size(self) -> int:
        """The length of the log file, which is not the part of it in use."""
        try:
            return os.stat(self._log_path).st_size
        except FileNotFoundError:
            return 0

    def after_commit(self, commits: int = 1) -> None:
        """Count them; every so often write back."""
        self._commits += commits
        self._unseen += commits
        changes = self._writer.total_changes
        if self._unseen < COMMITS_UNSEEN and changes < self._changes + CHANGES_UNSEEN:
            return
        self._unseen = 0
        self._changes = changes
        if self._commits >= COMMITS_BETWEEN or self.log_size() > self._mark + GROWTH_BETWEEN:
            self.write_back()

    def write_back(self) -> bool:
        """Copy what readers allow; false when somebody else is writing just now."""
        self._commits = 0
        try:
            if not self._has_lock():
                return False  # a caller's transaction; there will be another commit to try after
            _, frames, copied = self._second.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            # Nothing is lost: what was committed stays in the log.
            _log.warning("The log of %s could not be written back: %s", self._path, error)
            return False
        finally:
            self._let_go()
        self._note(is_complete=frames == copied)
        return True

    def _has_lock(self) -> bool:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            return False
        return True

    def _let_go(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _note(self, *, is_complete: bool) -> None:
        size = self.log_size()
        # A log that a reader pins goes on growing: measure from here, or every commit would try again.
        self._mark = min(size, SIZE_KEPT) if is_complete else size
        if not is_complete and size > SIZE_ALARMING and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s-wal has grown to %d MB because a reader holds an old state of %s. End the long read.",
                self._path,
                size >> 20,
                self._path,
            )
