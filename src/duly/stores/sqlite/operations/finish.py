"""finish: end one run that is simply done, in the transaction of its effects.

An exactly-once run ends alone, so what a batch of ends shares (reading the notice, taking in the intake)
would be paid by each of them: those looks are conditions of the one update here. Code
that is too old for the schema may end what it runs, here as in `settle`.
"""

from __future__ import annotations

from typing import Any

from duly.lifecycle import Done
from duly.stores.contract import Settlement
from duly.stores.drive import Counted, Steps
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import span, stamp_or_none
from duly.stores.tables.requests import FORMAT

SQL = statements("finish")


def finish(world: World, settlement: Settlement) -> Steps[bool]:
    """Whether it ended; if not, nothing was changed, and `settle` says what became of it."""
    verdict = settlement.verdict
    if not isinstance(verdict, Done) or settlement.then:
        return False
    ((count, _),) = yield Counted(SQL["finish"], _end(world, settlement, verdict))
    return bool(count)


def _end(world: World, settlement: Settlement, verdict: Done) -> dict[str, Any]:
    job_id, epoch, nonce = settlement.fence
    return {
        "id": job_id,
        "generation": settlement.generation,
        "epoch": epoch,
        "nonce": nonce,
        "now": world.now,
        "started_at": stamp_or_none(settlement.started_at),
        "result": verdict.result,
        "kept_for": span(verdict.keep_result) if verdict.keep_result else None,
        "format": FORMAT,
    }
