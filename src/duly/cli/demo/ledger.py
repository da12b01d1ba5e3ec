"""The world outside the store: one small file per effect, guarded by the epoch of the run that writes.

A run says at its start which epoch it is; a finish with an older epoch than the newest start is refused.
The name is the key of the effect: if a worker is frozen after its finish and before its settlement, its
successor is told that the effect is there. So must a system outside do for a task that may run twice.
"""

from __future__ import annotations

import fcntl
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened under one name."""

    name: str
    counts: Counter[str]
    """start, finish, refused and known."""


class Ledger:
    """Shared by all processes of the demo."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def start(self, name: str, epoch: int) -> None:
        """From now on, only this epoch or a later one may finish."""
        with self._opened(name) as file:
            file.write(f"start {epoch}\n")

    def finish(self, name: str, epoch: int) -> bool:
        """Write the effect; False, and nothing but a note, when a later run has started or it is there."""
        with self._opened(name) as file:
            file.seek(0)
            lines = [line.split() for line in file]
            newest = max((int(words[1]) for words in lines if words[0] == "start"), default=0)
            has_it = any(words[0] == "finish" for words in lines)
            word = "refused" if epoch < newest else "known" if has_it else "finish"
            file.write(f"{word} {epoch}\n")
            return word == "finish"

    def entries(self) -> dict[str, Entry]:
        """Everything written, by name."""
        found = [self._read(path) for path in sorted(self._folder.iterdir())]
        return {entry.name: entry for entry in found}

    def _opened(self, name: str) -> TextIO:
        path = self._folder / sha256(name.encode()).hexdigest()[:24]
        file = path.open("a+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)  # released with the file
        if path.stat().st_size == 0:
            file.write(f"name {name}\n")
        return file

    def _read(self, path: Path) -> Entry:
        first, *lines = path.read_text(encoding="utf-8").splitlines() or ["name ?"]
        return Entry(first.removeprefix("name "), Counter(line.split()[0] for line in lines))
