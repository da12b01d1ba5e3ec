"""One environment for each system, made of PyPI's newest versions, on the Python that Duly runs on."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.place import ROOT


class NotInstalled(Exception):
    """A system that this Python or this machine cannot have."""


@dataclass(frozen=True)
class Environments:
    """A folder of them; what was installed there before is used again."""

    folder: Path

    def python(self, name: str, packages: Sequence[str]) -> Path:
        """The interpreter that has these packages; Duly's is the one that runs this."""
        if not packages:
            return Path(sys.executable)
        place = self.folder / name
        if not (place / "ready").exists():
            self._install(place, packages)
        return place / "bin" / "python"

    def _install(self, place: Path, packages: Sequence[str]) -> None:
        print(f"installing {', '.join(packages)}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True, clear=True)
        python = str(place / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *packages], capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            raise NotInstalled(_reason(done.stderr))
        (place / "ready").touch()


def _reason(words: str) -> str:
    errors = [line for line in words.splitlines() if line.startswith("ERROR:")]
    return (errors or words.splitlines() or ["pip failed"])[-1].removeprefix("ERROR: ")
