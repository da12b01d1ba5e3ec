"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from duly.job import FINISHED, Fence, State
from duly.lifecycle import (
    Done,
    Settled,
)
from duly.stores.contract import Settlement
from duly.stores.drive import Counted, Lengthy, Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.exchange import exchange
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.put import put, window_for
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import span, stamp_or_none
from duly.stores.tables.verdicts import Neighbours, settle_row

SQL = statements("settle")


class Ends:
    """What has ended: settled first where that could matter to what is lent, else together with lending."""

    def __init__(self, world: World, worker: str, settlements: Sequence[Settlement]) -> None:
        self._world = world
        self._worker = worker
        self._settlements = settlements
        self._plain = _plain(settlements)
        self._answers: list[Settled] | None = None

    @property
    def can_wait(self) -> bool:
        """They are still to be settled, and probably matter to nobody."""
        return self._answers is None and 0 < len(self._plain) == len(self._settlements)

    def settle(self) -> Steps[list[Settled]]:
        """Now, unless they are."""
        if self._answers is None:
            self._answers = yield from settle(self._world, self._worker, self._settlements)
        return self._answers

    def settle_plainly(self) -> Steps[None]:
        """Before something that depends on them; `Undecided` if others could become ready by it."""
        if self._answers is None:
            yield from self.settle_and_lend({"generations": "[]", "nonce": None, "worker": None})

    def settle_and_lend(self, loan: dict[str, Any]) -> Steps[None]:
        """In one statement, which changes nothing where one of them is `Undecided`."""
        plain = list(self._plain.values())
        loans = {"loans": pack(_loans(plain)), "ends": len(plain), "is_free": True}
        yield from exchange(loan | loans | {"now": self._world.now})
        yield from _keep_results(self._world, plain, len(plain))
        self._answers = [Settled.SETTLED] * len(plain)


def settle(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[list[Settled]]:
    yield from absorb(world)
    plain = _plain(settlements)
    is_free = len(plain) == len(settlements)
    count = yield from _finish_together(world, list(plain.values()), is_free=is_free)
    if count == len(settlements):
        return [Settled.SETTLED] * count
    found = yield Statement(SQL["which_finished"], {"count": count})
    finished = {plain[job_id].fence for (job_id,) in found}
    answers: list[Settled] = []
    for settlement in settlements:
        if settlement.fence in finished:
            answers.append(Settled.SETTLED)
        else:
            answers.append((yield from _settle_one(world, worker, settlement)))
    return answers


# --- runs that are simply done ------------------------------------------------------------------


def _plain(settlements: Sequence[Settlement]) -> dict[str, Settlement]:
    """By job, what may be simply done. Of two for one job only the first: the other must see its effect."""
    first: dict[str, Settlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.fence.id, settlement)
    return {job_id: settlement for job_id, settlement in first.items() if _is_plain(settlement)}


def _is_plain(settlement: Settlement) -> bool:
    verdict = settlement.verdict
    return type(verdict) is Done and not settlement.then and "\0" not in (verdict.result or "")


def _finish_together(world: World, plain: Sequence[Settlement], *, is_free: bool) -> Steps[int]:
    """End what needs no decision, each with one of the last lines of the history; answers how many.

    With `is_free` a job with a serial may be among them. Not so beside other verdicts, whose
    follow-ups look at what stands for the serial at their own turn.
    """
    if not plain:
        return 0
    ends = {"loans": pack(_loans(plain)), "now": world.now, "is_free": is_free}
    yield Lengthy(SQL["record_done"], ends)
    ((count, _),) = yield Counted(SQL["finish_done"], {"now": world.now})
    yield from _keep_results(world, plain, count)
    return int(count)


def _loans(plain: Sequence[Settlement]) -> list[tuple[int, str, dict[str, int | None]]]:
    """Epoch, nonce, and when each run of theirs began. Bodies start in bursts, so most began together."""
    loans: defaultdict[tuple[int, str], dict[str, int | None]] = defaultdict(dict)
    started_at: datetime | None = None
    stamped: int | None = None
    for (job_id, epoch, nonce), _, started, *_ in plain:
        if started is not started_at:
            started_at, stamped = started, stamp_or_none(started)
        loans[epoch, nonce][job_id] = stamped
    return [(epoch, nonce, ends) for (epoch, nonce), ends in loans.items()]


def _keep_results(world: World, plain: Sequence[Settlement], count: int) -> Steps[None]:
    results = [
        (settlement.fence.id, verdict.result, span(verdict.keep_result) if verdict.keep_result else None)
        for settlement in plain
        if isinstance(verdict := settlement.verdict, Done)
        and (verdict.result is not None or verdict.keep_result)
    ]
    if results:
        yield Statement(SQL["keep_results"], {"results": pack(results), "count": count, "now": world.now})


# --- one claim, whatever happened meanwhile -----------------------------------------------------


def _settle_one(world: World, worker: str, settlement: Settlement) -> Steps[Settled]:
    row = yield from world.row(settlement.fence.id)
    if row is not None and _is_recorded(row, settlement.fence):
        return Settled.SUPERSEDED if row.superseded_by else Settled.SETTLED
    if row is None or not _fence_holds(row, settlement.fence):
        yield from _refuse(world, worker, row, settlement)
        return Settled.LOST
    neighbours = Neighbours(window_for, partial(_queued, row))
    answer, follow_ups = yield from settle_row(world, row, settlement, neighbours)
    yield from put(world, follow_ups)
    return answer


def _is_recorded(row: Row, fence: Fence) -> bool:
    """This very claim ended the job: the answer was lost on the way, and the worker asks again."""
    return row.state in FINISHED and (row.epoch, row.nonce) == fence[1:]


def _fence_holds(row: Row, fence: Fence) -> bool:
    return row.state is State.RUNNING and (row.epoch, row.nonce) == fence[1:]


def _queued(row: Row) -> Steps[str | None]:
    """The newest request that waits for the key of a run."""
    if row.serial is None:
        return None
    found = yield Statement(SQL["queued"], {"serial": row.serial, "key": row.key})
    return found[0][0] if found else None


def _refuse(world: World, worker: str, row: Row | None, settlement: Settlement) -> Steps[None]:
    yield from world.tally("refused")
    if row is not None:
        verdict = type(settlement.verdict).__name__
        yield from world.note(row, "refused", f"late {verdict} by {worker} at epoch {settlement.fence.epoch}")
