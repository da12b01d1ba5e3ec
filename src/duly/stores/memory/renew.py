"""renew, begin, report: what a worker says about claims it still holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from duly.job import Delivery, Fence, State, Wish
from duly.lifecycle import Release
from duly.stores.contract import Order, Renewal, Settlement, WorkerCard
from duly.stores.memory.claim import fence_holds
from duly.stores.memory.settle import settle
from duly.stores.memory.world import Presence, Row, World


def renew(world: World, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Renewal:
    """Extend the worker's lease; say which claims are lost, superseded or wished to stop."""
    world.workers[card.id] = Presence(card, world.clock.boot() + lease.total_seconds(), world.now())
    lost = frozenset(fence for fence in fences if not fence_holds(world.rows.get(fence.id), fence))
    orders = {fence: _order(world.rows[fence.id]) for fence in fences if fence not in lost}
    return Renewal(lost, {fence: order for fence, order in orders.items() if order is not None})


def _order(row: Row) -> Order | None:
    if row.wish in (Wish.CANCEL, Wish.DELETE):
        return Order.CANCEL
    return Order.SUPERSEDED if row.superseded_by is not None else None


def begin(world: World, fences: Sequence[Fence], *, isolated: bool, once: bool) -> frozenset[Fence]:
    """Mark bodies as started, durably, before they start. Those not answered must not start."""
    begun: set[Fence] = set()
    for fence in fences:
        row = world.rows.get(fence.id)
        if row is not None and fence_holds(row, fence) and _order(row) is None:
            row.has_begun = True
            row.began_isolated = isolated
            # The task may have become at_most_once after the request: what counts is how the body starts.
            row.delivery = Delivery.AT_MOST_ONCE if once else row.delivery
            begun.add(fence)
    return frozenset(begun)


def report(world: World, progress: Mapping[Fence, str]) -> None:
    """Progress of running jobs; silently dropped where the fence no longer holds."""
    for fence, text in progress.items():
        row = world.rows.get(fence.id)
        if row is not None and fence_holds(row, fence):
            row.progress = text


def disown(world: World, worker: str, held: Sequence[Fence]) -> int:
    """Hand back what the store believes this worker holds beyond `held`.

    Said by a worker whose claim was committed while its answer got lost: it never started those, and its
    lease, which it goes on renewing, would keep everybody else from them.
    """
    borrowed = [row for row in world.rows.values() if row.worker == worker and row.state is State.RUNNING]
    fences = [Fence(row.id, row.epoch, row.nonce) for row in borrowed]
    strays = [fence for fence in fences if fence not in held]
    verdict = Release(note="its claim was never received")
    settle(world, worker, [Settlement(fence, verdict) for fence in strays])
    return len(strays)
