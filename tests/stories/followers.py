"""A reactive application for workers in processes of their own.

Its store is DULY_URL and its table FOLLOWED; bodies tell the test what they do through files in STORY_FOLDER.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from duly import Change, Duly

TARGET: Final = "tests.stories.followers:app"
app: Final = Duly()


@app.react(
    table=os.environ.get("FOLLOWED", "orders"),
    where="status in ('quick', 'slow', 'paid')",
    watch=["status", "total"],
    name="receipt",
)
def receipt(change: Change) -> None:
    """Notes when it began and what it saw; a slow one waits for the test in between."""
    _note("began", change.key)
    row = change.document()
    deadline = time.monotonic() + 60
    while row["status"] == "slow" and not (_folder() / "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the test never let it go")
        time.sleep(0.01)
    _note("ended", change.key)
    _note("saw", f"{change.key} {row['total']}")


def _folder() -> Path:
    return Path(os.environ["STORY_FOLDER"])


def _note(journal: str, line: object) -> None:
    with open(_folder() / journal, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


# --- the test's side ------------------------------------------------------------------------------


def prepare(environment: pytest.MonkeyPatch, url: str, table: str, folder: Path) -> None:
    """What workers started from here find in their environment."""
    settings = {"DULY_URL": url, "FOLLOWED": table, "STORY_FOLDER": str(folder)}
    settings |= {"DULY_LEASE": "30s", "DULY_POLL": "50ms", "DULY_CONCURRENCY": "4", "DULY_GRACE": "8s"}
    for name, value in settings.items():
        environment.setenv(name, value)


def lines(folder: Path, journal: str) -> list[str]:
    """What was noted so far."""
    path = folder / journal
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def let(folder: Path) -> None:
    """Let slow bodies go on."""
    (folder / "go").touch()
