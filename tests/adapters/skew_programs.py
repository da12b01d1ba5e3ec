"""`duly …` as another version of the code would run it: with the migrations of a folder after those shipped.

python -m tests.adapters.skew_programs FOLDER COMMAND …
"""

from __future__ import annotations

import sys
from pathlib import Path

from duly.cli import main
from duly.stores.postgres import driver
from duly.stores.sqlite import store
from duly.stores.tables.migrations import parse


def become(folder: Path) -> None:
    """From here on this process is code that ships more migrations."""
    further = tuple(parse(file.name, file.read_text()) for file in sorted(folder.iterdir()))
    for module in (store, driver):
        shipped = module.shipped()
        module.shipped = lambda shipped=shipped: (*shipped, *further)  # type: ignore[attr-defined]


if __name__ == "__main__":
    become(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
