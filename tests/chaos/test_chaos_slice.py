"""Two minutes of chaos: one short run on each store, with a seed of its own, judged by the checker.

`make chaos` goes on for ten minutes each. A run that fails keeps its files and is not tried again: the seed
in its message makes the same plan once more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos.crew import ROOT
from tests.chaos.run import ChaosRun, Conditions

SEEDS = {"sqlite": 2026, "postgres": 1511, "redis": 77}


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", list(SEEDS))
def test_the_invariants_hold_while_everything_goes_wrong(store: str, tmp_path: Path) -> None:
    conditions = Conditions(store=store, seed=SEEDS[store], seconds=16, kill_every=1.5, rate=4)

    ChaosRun(conditions, tmp_path).perform()

    checked = subprocess.run(
        [sys.executable, "-m", "tests.chaos.checker", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, f"{checked.stdout}{checked.stderr}\nits files are in {tmp_path}"
