"""One verdict against whatever happened while its run was under way."""

from __future__ import annotations

from collections.abc import Sequence

from duly.clash import Scene, place
from duly.job import Clash, Delivery, Request, Wish
from duly.lifecycle import (
    GOES_ON,
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
    wait_of,
)
from duly.stores.contract import Settlement
from duly.stores.drive import Steps
from duly.stores.postgres.operations.arrivals import Arrival
from duly.stores.postgres.operations.put import place_arrivals, window_of
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import span, stamp, stamp_or_none


def settle_row(world: World, row: Row, settlement: Settlement) -> Steps[Settled]:
    """Conclude a run whose fence holds. Its loan and every serial it speaks of are locked."""
    own = yield from _own(world, row, settlement)
    standing = yield from _standing(world, row, own)
    conclusion = conclude(settlement.verdict, standing)
    started_at = stamp_or_none(settlement.started_at)
    yield from world.note(row, conclusion.event, conclusion.reason, started_at=started_at)
    yield from _write(world, row, settlement, conclusion)
    if conclusion.event == "again":
        yield from world.trim(row)
    if conclusion.answer is Settled.SUPERSEDED:
        yield from world.tally("superseded")
    elif conclusion.event != "cancel":
        follow_ups = _follow_ups(settlement, own, standing)
        yield from place_arrivals(world, [Arrival.of(request, world.now) for request in follow_ups])
    return settlement.answer(conclusion)


def _own(world: World, row: Row, settlement: Settlement) -> Steps[list[Request]]:
    """Requests for the run's own key: part of its settle, and never what supersedes it."""
    own: list[Request] = []
    for request in settlement.then:
        is_own = row.key is not None and (request.task, request.key) == (row.track.task, row.key)
        if is_own and (yield from _takes_effect(world, request)):
            own.append(request)
    return own


def _takes_effect(world: World, request: Request) -> Steps[bool]:
    """Only a request that will stand afterwards can take over what the run leaves undone."""
    window = yield from window_of(Arrival.of(request, world.now).serial)
    return (
        request.clash is not Clash.SEED and place(request, Scene(window=window), world.moment.instant).creates
    )


def _standing(world: World, row: Row, own: Sequence[Request]) -> Steps[Standing]:
    peers = yield from world.peers(row.serial)
    behind = [peer.id for peer in peers if not peer.is_running and peer.key == row.key]
    wished = [request.id for request in own]
    return Standing(
        superseded_by=row.superseded_by,
        wish=row.wish,
        queued=next((ids[-1] for ids in (behind, wished) if ids), None),
        crashes=row.crashes,
        is_spent=row.delivery is Delivery.AT_MOST_ONCE and row.has_begun,
    )


def _follow_ups(settlement: Settlement, own: Sequence[Request], standing: Standing) -> list[Request]:
    """A request queued from outside is newer than what this run wished for its own key."""
    yields = bool(own) and standing.queued != own[-1].id
    return [request for request in settlement.then if not (yields and request in own)]


def _write(world: World, row: Row, settlement: Settlement, conclusion: Conclusion) -> Steps[None]:
    verdict = settlement.verdict
    row.error = error if (error := error_of(verdict)) is not None else row.error
    _count(world, row, settlement, conclusion)
    if conclusion.event in GOES_ON:
        ready_at = world.now if row.wish is Wish.HURRY else stamp(wait_of(verdict, world.moment.instant))
        row.wish = None
        yield from world.wait_again(row, conclusion.event, ready_at)
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
            row.expires_at = row.expiry
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
