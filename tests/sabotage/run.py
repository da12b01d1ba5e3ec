"""Break a copy of the engine in one line and see whether a test notices: `python -m tests.sabotage.run`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.sabotage.breakages import BREAKAGES, Breakage

ROOT: Final = Path(__file__).parents[2]
ENGINE: Final = ROOT / "src" / "duly"
LONGEST: Final = 150.0
"""Seconds in which a breakage must be noticed; that something never happens is noticed after a minute."""
TESTS_FAILED: Final = 1
"""What pytest says when tests ran and some failed; an engine that cannot be imported proves nothing."""


class Caught(NamedTuple):
    """What became of one breakage."""

    by: str | None
    """The first test that failed; None if none did."""
    seconds: float
    output: str


def broken(breakage: Breakage, text: str) -> str:
    """The file's text, broken."""
    if text.count(breakage.old) != 1:
        raise ValueError(
            f"{breakage.name}: its line stands {text.count(breakage.old)} times in {breakage.file}"
        )
    return text.replace(breakage.old, breakage.new)


def attempt(breakage: Breakage, *, longest: float = LONGEST) -> Caught:
    """Run its tests on a broken copy of the engine."""
    with tempfile.TemporaryDirectory(prefix="duly-sabotage-") as folder:
        copy = Path(folder) / "duly"
        shutil.copytree(ENGINE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / breakage.file
        file.write_text(broken(breakage, file.read_text()))
        began = time.monotonic()
        code, output = _tested(breakage, folder, longest)
        seconds = time.monotonic() - began
    return Caught(_culprit(output) if code == TESTS_FAILED else None, seconds, output)


def _tested(breakage: Breakage, folder: str, longest: float) -> tuple[int | None, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *breakage.tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        process.terminate()  # so that pytest stops the servers it started
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def _culprit(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("FAILED ")]
    return lines[0].removeprefix("FAILED ").split(" - ")[0] if lines else "a test"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage.run")
    parser.add_argument("only", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--show", action="store_true", help="print what the tests said")
    given = parser.parse_args()
    chosen = [one for one in BREAKAGES if not given.only or any(part in one.name for part in given.only)]
    missed = 0
    for breakage in chosen:
        caught = attempt(breakage)
        missed += caught.by is None
        print(f"{'caught' if caught.by else 'MISSED':6} {caught.seconds:5.1f} s  {breakage.name}", flush=True)
        print(f"               {caught.by or caught.output.splitlines()[-1:]}", flush=True)
        if given.show:
            print(caught.output)
    print(f"{len(chosen) - missed} caught, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
