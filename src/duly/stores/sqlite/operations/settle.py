"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from duly.job import FINISHED, Fence, State
from duly.lifecycle import Done, Settled, Verdict
from duly.stores.contract import Settlement
from duly.stores.drive import Lengthy, Statement, Steps
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

NOWHERE: Final = 0
"""The generation of no job."""

THEN: Final = attrgetter("then")


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
        plain = yield from _placed(self._plain.values())
        loans = _loans(plain)
        words = {"loans": pack(loans), "last": len(loans) - 1, "is_free": True, "now": self._world.now}
        yield from exchange(loan | words)
        yield from _keep_results(self._world, _results(plain))
        self._answers = [Settled.SETTLED] * len(plain)


def settle(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[list[Settled]]:
    yield from absorb(world)
    plain = _plain(settlements)
    loans = _loans((yield from _placed(plain.values())))
    results = _results(plain.values())
    said_before: set[str] = (yield from _finished(loans)) if results else set()
    count = yield from _finish_together(world, loans, is_free=len(plain) == len(settlements))
    yield from _keep_results(world, [result for result in results if result[0] not in said_before])
    if count == len(settlements):
        return [Settled.SETTLED] * count
    finished = {plain[job_id].fence for job_id in (yield from _finished(loans))}
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
    by_job = {one.fence.id: one for one in settlements}
    if len(by_job) == len(settlements) and _are_alike(settlements):
        return by_job if _is_plain(settlements[0]) else {}
    first = {one.fence.id: one for one in reversed(settlements)}
    return {one.fence.id: one for one in settlements if first[one.fence.id] is one and _is_plain(one)}


def _are_alike(settlements: Sequence[Settlement]) -> bool:
    """Most of a worker's are, which are looked at once: one value serves all runs that are simply done."""
    return len({id(one.verdict) for one in settlements}) == 1 and not any(map(THEN, settlements))


def _is_plain(settlement: Settlement) -> bool:
    verdict = settlement.verdict
    return type(verdict) is Done and not settlement.then and "\0" not in (verdict.result or "")


def _placed(plain: Collection[Settlement]) -> Steps[Collection[Settlement]]:
    """With the generations of their jobs. Workers tell them; for others they are looked up."""
    unknown = [settlement.fence.id for settlement in plain if settlement.generation is None]
    if not unknown:
        return plain
    ((found,),) = yield Statement(SQL["generations"], {"ids": pack(unknown)})
    generations: dict[str, int] = json.loads(found)
    return [
        settlement
        if settlement.generation is not None
        else settlement._replace(generation=generations.get(settlement.fence.id, NOWHERE))
        for settlement in plain
    ]


class Together(NamedTuple):
    """Runs of one claim that began at one moment, and end by one statement. Bodies start in bursts."""

    epoch: int
    nonce: str
    started_at: int | None
    amount: int
    generations: list[int | None]


def _loans(plain: Collection[Settlement]) -> list[Together]:
    loans: defaultdict[tuple[int, str, int | None], list[int | None]] = defaultdict(list)
    started_at: datetime | None = None
    stamped: int | None = None
    for (_, epoch, nonce), _, started, _, _, _, generation in plain:
        if started is not started_at:
            started_at, stamped = started, stamp_or_none(started)
        loans[epoch, nonce, stamped].append(generation)
    return [Together(*shared, len(ended), ended) for shared, ended in loans.items()]


def _finish_together(world: World, loans: Sequence[Together], *, is_free: bool) -> Steps[int]:
    """End what needs no decision; answers how many.

    With `is_free` a job with a serial may be among them. Not so beside other verdicts, whose
    follow-ups look at what stands for the serial at their own turn.
    """
    finished = 0
    for epoch, nonce, started_at, _, generations in loans:
        ends = {"ended": pack(generations), "epoch": epoch, "shown": nonce, "started_at": started_at}
        yield Lengthy(SQL["finish_done"], ends | {"now": world.now, "is_free": is_free})
        ((count,),) = yield Statement(SQL["finished"])
        finished += count
    return finished


def _finished(loans: Sequence[Together]) -> Steps[set[str]]:
    """The jobs among them that ended under that very loan, now or when it was said before."""
    found = yield Statement(SQL["which_finished"], {"loans": pack(loans)})
    return {job_id for (job_id,) in found}


Result = tuple[str, int, str, str | None, int | None]
"""A fence, what the run leaves behind, and for how long."""


def _results(plain: Collection[Settlement]) -> list[Result]:
    if not any(_leaves_one(verdict) for verdict in {id(one.verdict): one.verdict for one in plain}.values()):
        return []
    return [
        (job_id, epoch, nonce, verdict.result, span(verdict.keep_result) if verdict.keep_result else None)
        for (job_id, epoch, nonce), verdict, *_ in plain
        if isinstance(verdict, Done) and _leaves_one(verdict)
    ]


def _leaves_one(verdict: Verdict) -> bool:
    return isinstance(verdict, Done) and (verdict.result is not None or bool(verdict.keep_result))


def _keep_results(world: World, results: Sequence[Result]) -> Steps[None]:
    """Of those that were finished just now."""
    if results:
        yield Statement(SQL["keep_results"], {"results": pack(results), "now": world.now})


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
