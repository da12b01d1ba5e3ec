"""Play many seeds, or one again: `python -m tests.simulation --seeds 2000`, `--seed 17`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.play import perform


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--seeds", type=int, default=200, help="how many to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + given.seeds)
    began, virtual, runs, faults = time.monotonic(), 0.0, 0, 0
    for seed in seeds:
        played = perform(seed)
        virtual, runs, faults = virtual + played.seconds, runs + played.runs, faults + played.faults
        if given.seed is not None:
            print(played)
    print(
        f"{len(seeds)} plays, {virtual / 3600:.1f} virtual hours, {runs} runs, {faults} faults, "
        f"no law broken, {time.monotonic() - began:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
