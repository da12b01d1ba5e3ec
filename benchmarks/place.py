"""Where the work of this process is: what the harness says to adapters by environment variables.

Nothing but the standard library is imported: adapters run in the peers' environments.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

URL: Final = "BENCH_URL"
VARIANT: Final = "BENCH_VARIANT"
TASK: Final = "BENCH_TASK"
SCHEDULES: Final = "BENCH_SCHEDULES"
ORIGIN: Final = "BENCH_ORIGIN"
ROOT: Final = Path(__file__).parents[1]


def url() -> str:
    """The store, as postgresql://…, redis://… or sqlite:///path."""
    return os.environ[URL]


def path() -> str:
    """The file of a SQLite store."""
    return url().removeprefix("sqlite:///").partition("?")[0]


def variant() -> str:
    """Which of its ways a system works in, where it has several."""
    return os.environ.get(VARIANT, "")
