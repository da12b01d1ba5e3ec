"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

from collections.abc import Sequence

from duly.clash import Scene, place
from duly.job import FINISHED, Clash, Delivery, Fence, Request, State, Wish
from duly.lifecycle import (
    EVENTS,
    GOES_ON,
    HISTORY_LINES,
    Again,
    Conclusion,
    Crash,
    Defer,
    Done,
    Settled,
    Standing,
    TryAgain,
    Verdict,
    conclude,
    error_of,
    wait_of,
)
from duly.stores.contract import Settlement
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.put import put, window_of
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import span, stamp, stamp_or_none

SQL = statements("settle")


def settle(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[list[Settled]]:
    yield from absorb(world)
    plain = _plain(settlements)
    ((mark,),) = yield Statement(SQL["mark"])
    is_free = len(plain) == len(settlements)
    count = yield from _finish_together(world, list(plain.values()), mark, is_free=is_free)
    if count == len(settlements):
        return [Settled.SETTLED] * count
    found = yield Statement(SQL["which_finished"], {"mark": mark})
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


def _finish_together(world: World, plain: Sequence[Settlement], mark: int, *, is_free: bool) -> Steps[int]:
    """End what needs no decision, each with a history line after `mark`; answers how many.

    With `is_free` a job with a serial may be among them. Not so beside other verdicts, whose
    follow-ups look at what stands for the serial at their own turn.
    """
    if not plain:
        return 0
    claims = pack([(*settlement.fence, stamp_or_none(settlement.started_at)) for settlement in plain])
    yield Statement(SQL["record_done"], {"claims": claims, "now": world.now, "is_free": is_free})
    yield Statement(SQL["finish_done"], {"mark": mark, "now": world.now})
    ((count,),) = yield Statement(SQL["finished"])
    yield from _keep_results(world, plain, mark)
    return int(count)


def _keep_results(world: World, plain: Sequence[Settlement], mark: int) -> Steps[None]:
    results = [
        (settlement.fence.id, verdict.result, span(verdict.keep_result) if verdict.keep_result else None)
        for settlement in plain
        if isinstance(verdict := settlement.verdict, Done)
        and (verdict.result is not None or verdict.keep_result)
    ]
    if results:
        yield Statement(SQL["keep_results"], {"results": pack(results), "mark": mark, "now": world.now})


# --- one claim, whatever happened meanwhile -----------------------------------------------------


def _settle_one(world: World, worker: str, settlement: Settlement) -> Steps[Settled]:
    row = yield from world.row(settlement.fence.id)
    if row is not None and _is_recorded(row, settlement.fence):
        return Settled.SUPERSEDED if row.superseded_by else Settled.SETTLED
    if row is None or not _fence_holds(row, settlement.fence):
        yield from _refuse(world, worker, row, settlement)
        return Settled.LOST
    own = yield from _own(world, row, settlement)
    standing = yield from _standing(row, settlement.verdict, own)
    conclusion = conclude(settlement.verdict, standing)
    started_at = stamp_or_none(settlement.started_at)
    yield from world.note(row, conclusion.event, conclusion.reason, started_at=started_at)
    yield from _write(world, row, settlement, conclusion)
    if conclusion.answer is Settled.SUPERSEDED:
        yield from world.tally("superseded")
    elif conclusion.event != "cancel":
        yield from put(world, _follow_ups(settlement, own, standing))
    return settlement.answer(conclusion)


def _is_recorded(row: Row, fence: Fence) -> bool:
    """This very claim ended the job: the answer was lost on the way, and the worker asks again."""
    return row.state in FINISHED and (row.epoch, row.nonce) == fence[1:]


def _fence_holds(row: Row, fence: Fence) -> bool:
    return row.state is State.RUNNING and (row.epoch, row.nonce) == fence[1:]


def _own(world: World, row: Row, settlement: Settlement) -> Steps[list[Request]]:
    """Requests for the run's own key: part of its settle, and never what supersedes it."""
    own: list[Request] = []
    for request in settlement.then:
        is_own = row.key is not None and (request.task, request.key) == (row.task, row.key)
        if is_own and (yield from _takes_effect(world, request)):
            own.append(request)
    return own


def _takes_effect(world: World, request: Request) -> Steps[bool]:
    """Only a request that will stand afterwards can take over what the run leaves undone."""
    window = yield from window_of(request.lane_of_serial)
    scene = Scene(window=window)
    return request.clash is not Clash.SEED and place(request, scene, world.moment.instant).creates


def _standing(row: Row, verdict: Verdict, own: Sequence[Request]) -> Steps[Standing]:
    # Who waits behind matters only to a run that would go on or asks for its own key; a chain may be long.
    matters = bool(own) or EVENTS[type(verdict)] in GOES_ON
    queued = (yield from _queued(row)) if matters else None
    return Standing(
        superseded_by=row.superseded_by,
        wish=row.wish,
        queued=queued or (own[-1].id if own else None),
        crashes=row.crashes,
        is_spent=row.delivery is Delivery.AT_MOST_ONCE and row.has_begun,
    )


def _queued(row: Row) -> Steps[str | None]:
    """The newest request that waits for the key of a run."""
    if row.serial is None:
        return None
    found = yield Statement(SQL["queued"], {"serial": row.serial, "key": row.key})
    return found[0][0] if found else None


def _follow_ups(settlement: Settlement, own: Sequence[Request], standing: Standing) -> list[Request]:
    """A request queued from outside is newer than what this run wished for its own key."""
    yields = bool(own) and standing.queued != own[-1].id
    return [request for request in settlement.then if not (yields and request in own)]


def _refuse(world: World, worker: str, row: Row | None, settlement: Settlement) -> Steps[None]:
    yield from world.tally("refused")
    if row is not None:
        verdict = type(settlement.verdict).__name__
        yield from world.note(row, "refused", f"late {verdict} by {worker} at epoch {settlement.fence.epoch}")


def _write(world: World, row: Row, settlement: Settlement, conclusion: Conclusion) -> Steps[None]:
    verdict = settlement.verdict
    row.error = error if (error := error_of(verdict)) is not None else row.error
    _count(world, row, settlement, conclusion)
    if conclusion.event in GOES_ON:
        ready_at = world.now if row.wish is Wish.HURRY else stamp(wait_of(verdict, world.moment.instant))
        row.wish = None
        yield from world.wait_again(row, conclusion.event, ready_at)
        if conclusion.event == "again":
            yield Statement(SQL["trim_history"], {"entered": row.entered, "lines": HISTORY_LINES})
        return
    if isinstance(verdict, Done) and conclusion.event == "done":
        row.error = None
        row.result = verdict.result
        row.result_until = world.now + span(verdict.keep_result) if verdict.keep_result else None
    yield from world.finish(row, conclusion.event, conclusion.reason)
    if row.wish is Wish.DELETE:
        yield from world.remove(row)


def _count(world: World, row: Row, settlement: Settlement, conclusion: Conclusion) -> None:
    """Failures, deaths in isolation and waits are counted apart; a new cycle starts from nothing."""
    match settlement.verdict:
        case Again() if conclusion.event == "again":
            row.attempt = row.crashes = row.deferrals = 0
            row.first_failure = None
            row.is_suspect = False
            row.cycle += 1
            row.due = stamp(wait_of(settlement.verdict, world.moment.instant))
            row.expire_after(row.due)
            row.arguments = settlement.arguments or row.arguments
        case TryAgain():
            row.attempt += 1
            row.first_failure = row.first_failure or world.now
        case Defer():
            row.deferrals += 1
        case Crash(counted=counted):
            row.crashes += 1 if counted else 0
            row.is_suspect = True
        case _:
            pass
