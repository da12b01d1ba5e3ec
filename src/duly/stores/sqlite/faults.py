"""Every way a database file can fail, told as one sentence that names the file and the remedy.

Callers of the store meet `StoreUnavailable` and its relatives only: an error of the driver says what
SQLite felt, not what to do about it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path
from typing import Final

from duly.errors import DulyError, SchemaMismatch, StoreBusy, StoreError, StoreRefused, StoreUnavailable

OLDEST_BUILD: Final = (3, 38, 0)
MOUNTS: Final = Path("/proc/self/mountinfo")
NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs", "vboxsf"}
)

_LET_IT_WRITE: Final = "Let the user of this process read and write the file and its directory"
_REMEDIES: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: "is locked by another connection. End its transaction, or if it is your own, "
    "hand it over with using(connection=…)",
    sqlite3.SQLITE_LOCKED: "is locked by another statement of this connection. Finish reading its rows first",
    sqlite3.SQLITE_READONLY: f"cannot be written. {_LET_IT_WRITE}",
    sqlite3.SQLITE_PERM: f"may not be used. {_LET_IT_WRITE}",
    sqlite3.SQLITE_CANTOPEN: f"cannot be opened. {_LET_IT_WRITE}",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full. Nothing was written; free some space and try again",
    sqlite3.SQLITE_IOERR: "met an input or output error. Look at the kernel's log and the health of the disk",
    sqlite3.SQLITE_CORRUPT: "is damaged. Stop every process that uses it and restore a backup, "
    "or save what can be read with: sqlite3 FILE .recover",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database, or an encrypted one. Point the URL at another file",
    sqlite3.SQLITE_NOMEM: "needs more memory than there is. Free some, or put fewer jobs in one call",
    sqlite3.SQLITE_TOOBIG: "cannot hold a value of that size. Store the payload elsewhere and pass its id",
}
_LASTING: Final = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)
"""What waiting does not mend."""
_MISSING: Final = re.compile(r"no such (table|column): (\S+)")


def code_of(error: BaseException) -> int:
    """SQLite's primary result code, 0 for an error the driver made itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether waiting may help."""
    return isinstance(error, sqlite3.OperationalError) and code_of(error) == sqlite3.SQLITE_BUSY


def unavailable(error: sqlite3.Error, sentence: str) -> StoreUnavailable:
    """With the difference that matters to a lease: who is kept out by a lock knows that nobody else writes.

    A transaction that began by reading and came too late is not kept out: others have written since.
    """
    is_kept_out = is_busy(error) and error.sqlite_errorcode != sqlite3.SQLITE_BUSY_SNAPSHOT
    if is_kept_out:
        return StoreBusy(sentence)
    return StoreRefused(sentence) if code_of(error) in _LASTING else StoreUnavailable(sentence)


def explained(error: Exception, path: str, doing: str) -> Exception:
    """The error a caller should see. What Duly raised on purpose passes through."""
    if isinstance(error, DulyError) or not isinstance(error, sqlite3.Error):
        return error
    remedy = _REMEDIES.get(code_of(error))
    if remedy is not None:
        return unavailable(error, f"{path} {remedy} (while: {doing}; SQLite: {error}).")
    if missing := _MISSING.search(str(error)):
        return SchemaMismatch(
            f"{path} has no {missing[1]} {missing[2]} (while: {doing}). "
            "Restart with the version of Duly that migrated it, or restore a backup."
        )
    return StoreError(
        f"SQLite refused to {doing} in {path}: {error}. This is a defect of Duly: please report it."
    )


def check_build(version: tuple[int, int, int]) -> None:
    """Statements take JSON apart with arrows, which older libraries do not know."""
    if version < OLDEST_BUILD:
        raise StoreRefused(
            f"This Python is linked with SQLite {'.'.join(map(str, version))}; Duly needs "
            f"{'.'.join(map(str, OLDEST_BUILD))}. Use a newer build of Python or of the library."
        )


def check_place(path: str) -> None:
    """Find out before SQLite does, which would only say "unable to open database file"."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreRefused(
            f"There is no directory {folder} to hold {os.path.basename(path)}. Create it first."
        )
    if os.path.isdir(path):
        raise StoreRefused(f"{path} is a directory. Point the URL at a file in it: sqlite:///{path}/duly.db.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreRefused(
            f"The directory {folder} cannot be written, and SQLite keeps its journal there. "
            "Let the user of this process write to it."
        )
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
        raise StoreRefused(f"{path} cannot be read and written. Let the user of this process do both.")


def network_warning(path: str, mounts: str) -> str | None:
    """SQLite's locks are not dependable across machines; a queue on such a disk deserves a word."""
    kind = file_system(path, mounts)
    if kind not in NETWORK and not kind.startswith("fuse."):
        return None
    return (
        f"{path} lies on a {kind} file system, where SQLite's locks may not hold between machines. "
        "Use a local disk, or PostgreSQL for workers on several machines."
    )


def file_system(path: str, mounts: str) -> str:
    """The type of the file system that holds `path`, by the kernel's list of mounts ("" if unknown)."""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = _unescaped(left.split(" ")[4]) if left.count(" ") >= 4 else ""
        # Later lines cover earlier ones, so an equal length wins.
        if right and len(point) >= len(best) and _is_under(path, point):
            best, kind = point, right.split(" ")[0]
    return kind


def mount_table() -> str:
    """The kernel's list of mounts, empty where there is none to read."""
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Identity:
    """Which file a path named when we opened it, so that we never write to one that was taken away."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            seen = os.stat(path)
        except OSError:
            self._inode = self._device = -1  # nobody's: it is gone already
        else:
            self._inode, self._device = seen.st_ino, seen.st_dev

    def verify(self) -> None:
        """Refuse to go on when the path leads elsewhere: what we write there nobody would read."""
        try:
            found = os.stat(self._path)
        except OSError:
            what = "was deleted"
        else:
            if found.st_ino == self._inode and found.st_dev == self._device:
                return
            what = "was replaced by another file"
        raise StoreRefused(
            f"{self._path} {what} while it was in use. What this process still writes would be lost: "
            "restart every process that uses it."
        )


def _is_under(path: str, point: str) -> bool:
    return point in {"/", path} or path.startswith(point + "/")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
