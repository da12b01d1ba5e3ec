"""Two minutes of chaos: one short run on each store, with a seed of its own, judged by the checker.

`make chaos` goes on for ten minutes each. A run that fails keeps its files and is not tried again: the seed
in its message makes the same plan once more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.chaos.crew import ROOT

SEEDS: Final = {"sqlite": 2026, "postgres": 1511, "redis": 77}
SLICE: Final = ("--seconds", "16", "--kill-every", "1.5", "--rate", "4")
PATIENCE: Final = 240.0


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, boot time and the death of parents")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", list(SEEDS))
def test_the_invariants_hold_while_everything_goes_wrong(store: str, tmp_path: Path) -> None:
    where = ("--store", store, "--seed", str(SEEDS[store]), "--keep", str(tmp_path))

    code, said = run_chaos(*where, *SLICE)

    assert code == 0, said


def run_chaos(*words: str) -> tuple[int, str]:
    """In a process of its own, which is told to stop rather than killed: it has servers to end."""
    command = [sys.executable, "-m", "tests.chaos", *words]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as runner:
        try:
            said, _ = runner.communicate(timeout=PATIENCE)
        except BaseException:
            runner.terminate()
            raise
    return runner.returncode, said
