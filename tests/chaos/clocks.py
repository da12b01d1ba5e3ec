"""Wall clocks that the nemesis steps: a preloaded shim reads its offset from a file.

It takes a C compiler to build it. Where there is none, the run goes on without this fault and says so.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("clock.c")


def build(folder: Path) -> Path | None:
    """The shim as a library; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if done.returncode == 0 else None


class WallClock:
    """One clock, shared by all processes that were started with its file."""

    def __init__(self, path: Path, library: Path | None) -> None:
        self._path = path
        self._library = library
        self.offset = 0.0
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """Step it, at once and for every process."""
        content = struct.pack("=q", round(seconds * 1e9))
        if not self._path.exists():
            self._path.write_bytes(content)
        with self._path.open("r+b") as file:  # in place: the processes have mapped this very file
            file.write(content)
        self.offset = seconds

    def variables(self) -> dict[str, str]:
        """The environment of a process that lives by it."""
        if self._library is None:
            return {}
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._path)}
