"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

from collections.abc import Sequence

from duly.clash import Scene, place
from duly.job import FINISHED, Clash, Delivery, Fence, Request, State, Wish
from duly.lifecycle import (
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
    conclude,
    error_of,
    fingerprint_of,
    wait_of,
)
from duly.stores.contract import Settlement
from duly.stores.memory.claim import fence_holds
from duly.stores.memory.put import put, scene_of
from duly.stores.memory.world import Row, World, expiry


def settle(world: World, worker: str, settlements: Sequence[Settlement]) -> list[Settled]:
    return [_settle_one(world, worker, settlement) for settlement in settlements]


def _settle_one(world: World, worker: str, settlement: Settlement) -> Settled:
    row = world.rows.get(settlement.fence.id)
    if row is not None and _is_recorded(row, settlement.fence):
        return Settled.SUPERSEDED if row.superseded_by else Settled.SETTLED
    if row is None or not fence_holds(row, settlement.fence):
        _refuse(world, worker, row, settlement)
        return Settled.LOST
    own = [request for request in settlement.then if is_own(row, request) and _takes_effect(world, request)]
    standing = _standing(world, row, own)
    conclusion = conclude(settlement.verdict, standing)
    world.note(row, conclusion.event, conclusion.reason, started_at=settlement.started_at)
    _write(world, row, settlement, conclusion)
    if conclusion.answer is Settled.SUPERSEDED:
        world.tallies["superseded"] += 1
    elif conclusion.event != "cancel":
        put(world, _follow_ups(settlement, own, standing))
    return settlement.answer(conclusion)


def _is_recorded(row: Row, fence: Fence) -> bool:
    """This very claim ended the job: the answer was lost on the way, and the worker asks again."""
    return row.state in FINISHED and (row.epoch, row.nonce) == (fence.epoch, fence.nonce)


def is_own(row: Row, request: Request) -> bool:
    """A request for the run's own key: part of its settle, and never what supersedes it."""
    return row.key is not None and (request.task, request.key) == (row.task, row.key)


def _takes_effect(world: World, request: Request) -> bool:
    """Only a request that will stand afterwards can take over what the run leaves undone."""
    scene = Scene(window=scene_of(world, request).window)
    return request.clash is not Clash.SEED and place(request, scene, world.now()).creates


def _standing(world: World, row: Row, own: list[Request]) -> Standing:
    behind = [other for other in world.live(row.serial, State.WAITING) if other.key == row.key]
    queued = behind[-1].id if behind else None
    is_spent = row.delivery is Delivery.AT_MOST_ONCE and row.has_begun
    return Standing(
        superseded_by=row.superseded_by,
        wish=row.wish,
        queued=queued or (own[-1].id if own else None),
        crashes=row.crashes,
        is_spent=is_spent,
    )


def _follow_ups(settlement: Settlement, own: list[Request], standing: Standing) -> list[Request]:
    """A request queued from outside is newer than what this run wished for its own key."""
    yields = bool(own) and standing.queued != own[-1].id
    return [request for request in settlement.then if not (yields and request in own)]


def _refuse(world: World, worker: str, row: Row | None, settlement: Settlement) -> None:
    world.tallies["refused"] += 1
    if row is not None:
        verdict = type(settlement.verdict).__name__
        world.note(row, "refused", f"late {verdict} by {worker} at epoch {settlement.fence.epoch}")


def _write(world: World, row: Row, settlement: Settlement, conclusion: Conclusion) -> None:
    verdict = settlement.verdict
    error = error_of(verdict)
    if error is not None:
        world.blame(row, error, fingerprint_of(verdict))
    _count(world, row, settlement, conclusion)
    if conclusion.event in GOES_ON:
        ready_at = world.now() if row.wish is Wish.HURRY else wait_of(verdict, world.now())
        row.wish = None
        world.wait_again(row, conclusion.event, ready_at)
        return
    if isinstance(verdict, Done) and conclusion.event == "done":
        world.blame(row, None)
        row.result = verdict.result
        row.result_until = world.now() + verdict.keep_result if verdict.keep_result else None
    is_deleted = row.wish is Wish.DELETE
    world.finish(row, conclusion.event, conclusion.reason)
    if is_deleted:
        del world.rows[row.id]


def _count(world: World, row: Row, settlement: Settlement, conclusion: Conclusion) -> None:
    """Failures, deaths in isolation and waits are counted apart; a new cycle starts from nothing."""
    match settlement.verdict:
        case Again() if conclusion.event == "again":
            row.attempt = row.crashes = row.deferrals = 0
            row.first_failure = None
            row.is_suspect = False
            row.cycle += 1
            row.due = wait_of(settlement.verdict, world.now())
            row.expires_at = expiry(row.due, row.expires_after)
            row.arguments = settlement.arguments or row.arguments
            del row.history[:-HISTORY_LINES]
        case TryAgain():
            row.attempt += 1
            row.first_failure = row.first_failure or world.now()
        case Defer():
            row.deferrals += 1
        case Crash(counted=counted):
            row.crashes += 1 if counted else 0
            row.is_suspect = True
        case _:
            pass
