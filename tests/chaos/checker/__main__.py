"""`python -m tests.chaos.checker DIR`: judge a history by its files; 1 with witnesses, 2 if unfinished."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.chaos.checker.judge import CHECKS, judge, sizes
from tests.chaos.checker.reading import read
from tests.chaos.checker.witness import smallest


def main() -> int:
    history = read(Path(sys.argv[1]))
    print(f"{history.terms.store}, seed {history.terms.seed}, {history.terms.seconds:g} s of faults")
    print(sizes(history))
    if not history.is_complete:
        print("UNFINISHED: there is no last dump, so nothing can be said")
        return 2
    found = judge(history)
    print("judged " + ", ".join(f"{name} {count:,}" for name, count in history.judged.most_common()))
    for witness in smallest(found):
        print(witness.text())
    if found:
        counts = Counter(witness.invariant for witness in found)
        print("VIOLATED: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
        return 1
    print(f"{len(CHECKS)} invariants hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
