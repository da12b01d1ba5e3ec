"""`python -m tests.reactive.convergence`: one run, then the judgement on what it left."""

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
from tests.reactive.convergence.run import Converging, Terms


def main() -> int:
    words = _words()
    folder = Path(words.keep or tempfile.mkdtemp(prefix=f"duly-converge-{words.store}-"))
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # so that everything is ended
    terms = Terms(
        store=words.store,
        seed=words.seed,
        seconds=words.seconds,
        writers=words.writers,
        documents=words.documents,
        rate=words.rate,
    )
    print(f"convergence on {terms.store}, seed {terms.seed}, {terms.seconds:g} s of faults", flush=True)
    Converging(terms, folder).perform()
    judgement = [sys.executable, "-m", "tests.reactive.convergence.judge", str(folder)]
    code = subprocess.run(judgement, cwd=ROOT, check=False).returncode
    if code or words.keep:
        print(f"its files are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reactive.convergence", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long writers and faults go on (60)")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=8.0, help="transactions per second and writer (8)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="by default a new one")
    parser.add_argument("--keep", metavar="DIR", help="where to keep the history; kept anyway on a violation")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
