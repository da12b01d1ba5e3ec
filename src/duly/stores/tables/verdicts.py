"""One verdict against whatever happened while its run was under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from duly.clash import Scene, Window, place
from duly.job import Clash, Delivery, Request, Wish
from duly.lifecycle import (
    EVENTS,
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
    fingerprint_of,
    wait_of,
)
from duly.stores.contract import Settlement
from duly.stores.drive import Steps
from duly.stores.tables.instants import span, stamp, stamp_or_none
from duly.stores.tables.rows import R, Row, World, blame, expire_after


class Neighbours(NamedTuple):
    """What a verdict asks of the rest of the store, in the store's own words."""

    window_for: Callable[[Request], Steps[Window | None]]
    """The duplicate guard that stands for a request's serial."""
    queued_behind: Callable[[], Steps[str | None]]
    """The newest request that waits for the key of the run."""


class Verdicted(NamedTuple):
    """The answer to the worker, and the requests that are now to be placed."""

    answer: Settled
    follow_ups: list[Request]


def settle_row(world: World[R], row: R, settlement: Settlement, neighbours: Neighbours) -> Steps[Verdicted]:
    """Conclude a run whose fence holds."""
    own = yield from _own(world, row, settlement, neighbours)
    standing = yield from _standing(row, settlement, own, neighbours)
    conclusion = conclude(settlement.verdict, standing)
    started_at = stamp_or_none(settlement.started_at)
    yield from world.note(row, conclusion.event, conclusion.reason, started_at=started_at)
    yield from _write(world, row, settlement, conclusion)
    if conclusion.event == "again":
        yield from world.trim(row)
    follow_ups: list[Request] = []
    if conclusion.answer is Settled.SUPERSEDED:
        yield from world.tally("superseded")
    elif conclusion.event != "cancel":
        follow_ups = _follow_ups(settlement, own, standing)
    return Verdicted(settlement.answer(conclusion), follow_ups)


def _own(world: World[R], row: R, settlement: Settlement, neighbours: Neighbours) -> Steps[list[Request]]:
    """Requests for the run's own key: part of its settle, and never what supersedes it."""
    own: list[Request] = []
    for request in settlement.then:
        is_own = row.key is not None and (request.task, request.key) == (row.task, row.key)
        if is_own and (yield from _takes_effect(world, request, neighbours)):
            own.append(request)
    return own


def _takes_effect(world: World[R], request: Request, neighbours: Neighbours) -> Steps[bool]:
    """Only a request that will stand afterwards can take over what the run leaves undone."""
    scene = Scene(window=(yield from neighbours.window_for(request)))
    return request.clash is not Clash.SEED and place(request, scene, world.moment.instant).creates


def _standing(
    row: Row, settlement: Settlement, own: Sequence[Request], neighbours: Neighbours
) -> Steps[Standing]:
    # Who waits behind matters only to a run that would go on or asks for its own key; a chain may be long.
    matters = bool(own) or EVENTS[type(settlement.verdict)] in GOES_ON
    queued = (yield from neighbours.queued_behind()) if matters else None
    return Standing(
        superseded_by=row.superseded_by,
        wish=row.wish,
        queued=queued or (own[-1].id if own else None),
        crashes=row.crashes,
        is_spent=row.delivery is Delivery.AT_MOST_ONCE and row.has_begun,
    )


def _follow_ups(settlement: Settlement, own: Sequence[Request], standing: Standing) -> list[Request]:
    """A request queued from outside is newer than what this run wished for its own key."""
    yields = bool(own) and standing.queued != own[-1].id
    return [request for request in settlement.then if not (yields and request in own)]


def _write(world: World[R], row: R, settlement: Settlement, conclusion: Conclusion) -> Steps[None]:
    verdict = settlement.verdict
    if (error := error_of(verdict)) is not None:
        blame(row, error, world.now, fingerprint_of(verdict))
    _count(world, row, settlement, conclusion)
    if conclusion.event in GOES_ON:
        ready_at = world.now if row.wish is Wish.HURRY else stamp(wait_of(verdict, world.moment.instant))
        row.wish = None
        yield from world.wait_again(row, conclusion.event, ready_at)
        return
    if isinstance(verdict, Done) and conclusion.event == "done":
        blame(row, None, world.now)
        row.result = verdict.result
        row.result_until = world.now + span(verdict.keep_result) if verdict.keep_result else None
    yield from world.finish(row, conclusion.event, conclusion.reason)
    if row.wish is Wish.DELETE:
        yield from world.remove(row)


def _count(world: World[R], row: R, settlement: Settlement, conclusion: Conclusion) -> None:
    """Failures, deaths in isolation and waits are counted apart; a new cycle starts from nothing."""
    match settlement.verdict:
        case Again() if conclusion.event == "again":
            row.attempt = row.crashes = row.deferrals = 0
            row.first_failure = None
            row.is_suspect = False
            row.cycle += 1
            row.due = stamp(wait_of(settlement.verdict, world.moment.instant))
            expire_after(row, row.due)
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
