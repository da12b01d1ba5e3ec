"""What the runner and its producers agree on: variables, and the application's tables."""

from __future__ import annotations

from typing import Final

SEED: Final = "CHAOS_SEED"
RATE: Final = "CHAOS_RATE"
OWN_TABLE: Final = "CHAOS_OWN_TABLE"

ORDERS: Final = "create table if not exists orders (op text primary key)"
"""One row per committed transaction of a producer: what really happened, whatever the answer was."""

EFFECTS: Final = "create table if not exists effects (token text, op text, epoch int)"
"""What exactly-once bodies leave behind. Nothing here forbids two rows of one job: the engine must."""
