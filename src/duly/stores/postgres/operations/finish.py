"""finish: end one run that is done with nothing to keep, in the transaction of its effects.

An exactly-once run ends alone, so its fence travels as numbers and not as the arrays of a batch.
"""

from __future__ import annotations

from typing import Final

from duly.lifecycle import Done
from duly.stores.contract import Settlement
from duly.stores.postgres.operations.fences import read
from duly.stores.postgres.operations.swift import Outlook
from duly.stores.postgres.operations.texts import statements
from duly.stores.tables.instants import stamp_or_none

END: Final = statements("finish")["end"]
CONFIRM: Final = statements("finish")["confirm"]


def fence_of(settlement: Settlement, outlook: Outlook) -> dict[str, int | None] | None:
    """What END and CONFIRM want to know; None for an end that they are not made for."""
    verdict, loan = settlement.verdict, read(settlement.fence)
    is_bare = type(verdict) is Done and verdict.result is None and verdict.keep_result is None
    if not is_bare or settlement.then or loan is None or loan.has_serial:
        return None
    return {
        "generation": loan.generation,
        "epoch": loan.epoch,
        "seed": loan.seed,
        "started": stamp_or_none(settlement.started_at),
        **outlook.given(),
    }
