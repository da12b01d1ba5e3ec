"""`python -m tests.chaos`: one run on one store, then the checker's verdict on what it left."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.crew import ROOT
from tests.chaos.run import ChaosRun, Conditions


def main() -> int:
    words = _words()
    folder = Path(words.keep or tempfile.mkdtemp(prefix=f"duly-chaos-{words.store}-"))
    conditions = Conditions(
        store=words.store,
        seed=words.seed,
        seconds=words.seconds,
        kill_every=words.kill_every,
        workers=words.workers,
        rate=words.rate,
    )
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # so that everything is ended
    print(f"chaos on {words.store}, seed {words.seed}, {words.seconds:g} s of faults", flush=True)
    ChaosRun(conditions, folder).perform()
    code = subprocess.run([sys.executable, "-m", "tests.chaos.checker", str(folder)], cwd=ROOT, check=False)
    if code.returncode or words.keep:
        print(f"its files are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code.returncode


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres", "redis"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults go on (600)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="by default a new one")
    parser.add_argument("--kill-every", type=float, default=1.0, help="seconds between two SIGKILLs (1)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=5.0, help="requests per second and producer (5)")
    parser.add_argument("--keep", metavar="DIR", help="where to keep the history; kept anyway on a violation")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
