"""What happens to a file before the first operation: is it sound, whose is it, which journal, which tables.

Whatever changes it happens under the file lock, so that any number of processes may start at once.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from duly.clock import Clock
from duly.errors import StoreRefused, StoreUnavailable
from duly.stores.sqlite.address import Address, Mode
from duly.stores.sqlite.connection import Spell, connect, deadline, pause_briefly
from duly.stores.sqlite.faults import mount_table, network_warning
from duly.stores.sqlite.journal import Journal, Version, choose_journal, mode_of, switch_mode
from duly.stores.sqlite.migrate import Migrator, is_own_file, read_schema
from duly.stores.tables.migrations import Migration, check_schema, missing

CHECKED_UP_TO: Final = 8 * 2**20
"""Bytes: a look at every page of a larger file would delay each start by more than a blink."""

_log = logging.getLogger("duly.sqlite")
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found and decided."""

    journal: Journal
    mode: Mode
    owns_file: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """The steps, in order, on a handle that is closed afterwards."""

    address: Address
    spell: Spell
    migrations: Sequence[Migration]
    clock: Clock
    patience: timedelta

    def look(self) -> Opened | None:
        """A file to which nothing need be done; without the lock, so that readers start beside any writer."""
        try:
            with closing(connect(self.address)) as connection:
                journal, owns_file = self._choice(connection)
                mode, schema = mode_of(connection), read_schema(connection, self.spell)
                if missing(schema, self.expanding) or journal.mode not in {None, mode}:
                    return None
                check_schema(schema, self.migrations, self.address.path)
                self._check_soundness(connection)
        except sqlite3.OperationalError:
            return None  # not there yet, or in the middle of being made
        return Opened(journal, mode, owns_file)

    def run(self) -> Opened:
        """Bring the file into the state the operations expect. The file lock is held."""
        with closing(connect(self.address, creates=True)) as connection:
            self._check_soundness(connection)
            journal, owns_file = self._choice(connection)
            mode = self._settle_mode(connection, journal)
            self._migrator(connection).expand(
                self.clock.now(), owns_file=owns_file, is_wanted=deadline(self.patience)
            )
            return Opened(journal, mode, owns_file)

    def warn(self, opened: Opened) -> None:
        """Tell, once, what the owner of the file should know."""
        warn_once(network_warning(self.address.path, mount_table()))
        warn_once(opened.journal.warning(self.address.path, opened.mode))

    def contract(self) -> list[str]:
        """Run also the migrations that take something away."""
        with closing(connect(self.address)) as connection:
            owns_file = is_own_file(connection, self.spell)
            return self._migrator(connection).contract(
                self.clock.now(), owns_file=owns_file, is_wanted=deadline(self.patience)
            )

    @property
    def expanding(self) -> list[Migration]:
        """The migrations that run by themselves."""
        return [step for step in self.migrations if step.oldest_code is None]

    def _choice(self, connection: sqlite3.Connection) -> tuple[Journal, bool]:
        owns_file = is_own_file(connection, self.spell)
        return choose_journal(sqlite_version(), owns_file=owns_file, wanted=self.address.wanted), owns_file

    def _migrator(self, connection: sqlite3.Connection) -> Migrator:
        return Migrator(connection, self.spell, self.migrations, self.address.path)

    def _check_soundness(self, connection: sqlite3.Connection) -> None:
        """A copy taken in the middle of a write, or a dying disk, is found now and not during a run."""
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if os.path.getsize(self.address.path) > CHECKED_UP_TO:
            return
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreRefused(
                f"{self.address.path} is damaged: {verdict}. Stop every process that uses it and restore "
                "a backup, or save what can be read with: sqlite3 FILE .recover"
            )

    def _settle_mode(self, connection: sqlite3.Connection, journal: Journal) -> Mode:
        if journal.mode is None:
            return mode_of(connection)
        may_wait = deadline(self.patience)
        while not switch_mode(connection, journal.mode):
            if not may_wait():
                raise StoreUnavailable(
                    f"{self.address.path} cannot change to the {journal.mode} journal while others use it. "
                    "Stop the other processes, open it once, then start them again."
                )
            pause_briefly()
        return journal.mode


def warn_once(text: str | None) -> None:
    """Say it to the log at the first opening in this process only."""
    if text is not None and text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)


def sqlite_version() -> Version:
    """The library this interpreter is linked with, which is not the one on the command line."""
    return sqlite3.sqlite_version_info[:3]
