"""renew, begin, report, disown: what a worker says about claims it holds, or does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from duly.job import Fence, Wish
from duly.lifecycle import Release
from duly.stores.contract import Order, Renewal, Settlement, WorkerCard
from duly.stores.drive import Operation, Row, Statement, Steps
from duly.stores.postgres.operations.arrays import integers, stored, words
from duly.stores.postgres.operations.fences import Loan, read, secret
from duly.stores.postgres.operations.settle import settle
from duly.stores.postgres.operations.swift import Message, Outlook, Rest, Whole
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.cards import card_columns
from duly.stores.tables.instants import span

SQL = statements("renew")


class Beat(NamedTuple):
    """Who is there, with which claims, and for how long."""

    card: WorkerCard
    fences: Sequence[Fence]
    lease: timedelta


def renew(world: World, beat: Beat) -> Steps[Renewal]:
    """Extend the worker's lease; say which claims are lost, superseded or wished to stop."""
    presence = {"lease_until": world.moment.boot + span(beat.lease), "now": world.now}
    yield Statement(SQL["beat"], card_columns(beat.card) | presence)
    if not beat.fences:
        return Renewal()
    changed = yield _changed(beat.fences)
    return _learnt(beat.fences, changed, is_at_home=False)


def renew_swiftly(outlook: Outlook, beat: Beat, renewing: Operation[Renewal]) -> Message[Renewal]:
    """The same in one message: seven statements a beat were two thirds of what an idle worker said."""
    fences = beat.fences

    def read_answer(answers: Sequence[list[Row]]) -> Whole[Renewal] | Rest[Renewal]:
        if not answers[0]:  # a request waits to be placed first
            return Rest(renewing, _as_it_is)
        ((is_at_home,),) = answers[0]
        changed = answers[1] if fences else []
        return Whole(_learnt(fences, changed, is_at_home=is_at_home and outlook.level is not None))

    given = card_columns(beat.card) | outlook.given() | {"lease": span(beat.lease)}
    beating = Statement(SQL["beat_swiftly"], given)
    return Message((beating, _changed(fences)) if fences else (beating,), read_answer)


def _as_it_is(renewal: Renewal) -> Renewal:
    return renewal


def _changed(fences: Sequence[Fence]) -> Statement:
    return Statement(SQL["changed"], _claims([read(fence) for fence in fences]))


def _learnt(fences: Sequence[Fence], changed: Sequence[Row], *, is_at_home: bool) -> Renewal:
    lost: set[Fence] = set()
    orders: dict[Fence, Order] = {}
    for place, is_lost, wish, superseded_by in changed:
        fence, order = fences[int(place)], _order(wish, superseded_by)
        if is_lost:
            lost.add(fence)
        elif order is not None:
            orders[fence] = order
    return Renewal(frozenset(lost), orders, is_at_home)


def _order(wish: str | None, superseded_by: str | None) -> Order | None:
    if wish in (Wish.CANCEL, Wish.DELETE):
        return Order.CANCEL
    return Order.SUPERSEDED if superseded_by is not None else None


def _claims(loans: Sequence[Loan | None]) -> dict[str, Any]:
    known = [loan or Loan(0, 0, 0, has_serial=False) for loan in loans]
    return {
        "generations": integers(loan.generation for loan in known),
        "epochs": integers(loan.epoch for loan in known),
        "seeds": integers(loan.seed for loan in known),
    }


def begin(fences: Sequence[Fence], *, isolated: bool, once: bool) -> Steps[frozenset[Fence]]:
    """Mark bodies as started, durably, before they start. Those not answered must not start.

    The task may have become at_most_once after the request: what counts is how the body starts.
    """
    claims = _claims([read(fence) for fence in fences])
    started = yield Statement(SQL["begin"], claims | {"isolated": isolated, "once": once})
    begun = set(started)
    return frozenset(fence for fence in fences if (loan := read(fence)) and loan[:3] in begun)


def report(progress: Mapping[Fence, str]) -> Steps[None]:
    """Progress of running jobs; silently dropped where the fence no longer holds."""
    if not progress:
        return
    claims = _claims([read(fence) for fence in progress])
    yield Statement(SQL["report"], claims | {"progress": words([stored(text) for text in progress.values()])})


def disown(world: World, worker: str, held: Sequence[Fence], counts: dict[str, int]) -> Steps[int]:
    """Hand back what the store believes this worker holds beyond `held`.

    Said by a worker whose claim was committed while its answer got lost: it never started those, and its
    lease, which it goes on renewing, would keep everybody else from them. The server may be at it still, or
    not have begun: a claim in one message shows `counts`, by which those from before are told.
    """
    counted = yield Statement(SQL["await_claims"], {"worker": worker})
    counts.update((worker, count) for (count,) in counted)
    found = yield Statement(SQL["borrowed"], {"worker": worker})
    borrowed = [
        Fence(job_id, epoch, secret(seed, generation, has_serial=has_serial))
        for job_id, epoch, seed, generation, has_serial in found
    ]
    strays = [fence for fence in borrowed if fence not in set(held)]
    verdict = Release(note="its claim was never received")
    yield from settle(world, worker, [Settlement(fence, verdict) for fence in strays])
    return len(strays)
