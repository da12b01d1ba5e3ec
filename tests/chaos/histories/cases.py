"""For each invariant a history that breaks it, and one like it that does not."""

from __future__ import annotations

from typing import Final

from tests.chaos.histories.bounds import BOUNDS, LEAKS
from tests.chaos.histories.budgets import BUDGETS
from tests.chaos.histories.case import Case
from tests.chaos.histories.clocks import CLOCKS
from tests.chaos.histories.fences import EFFECTS, FENCES
from tests.chaos.histories.keys import KEYS
from tests.chaos.histories.requests import REQUESTS

CASES: Final[list[Case]] = [*REQUESTS, *FENCES, *EFFECTS, *KEYS, *CLOCKS, *BUDGETS, *BOUNDS, *LEAKS]
