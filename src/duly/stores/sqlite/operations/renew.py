"""renew, begin, report, disown: what a worker says about claims it still holds, or never received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from duly.job import Fence, Wish
from duly.lifecycle import Release
from duly.stores.contract import Order, Renewal, Settlement, WorkerCard
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.settle import settle
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.cards import card_columns
from duly.stores.tables.instants import span

SQL = statements("renew")


def renew(world: World, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Steps[Renewal]:
    """Extend the worker's lease; say which claims are lost, superseded or wished to stop."""
    yield from absorb(world)
    moment = world.moment
    presence = {"lease_until": moment.boot + span(lease), "boot_id": moment.boot_id, "now": moment.now}
    yield Statement(SQL["beat"], card_columns(card) | presence)
    changed = yield Statement(SQL["changed"], {"claims": pack(fences)})
    lost: set[Fence] = set()
    orders: dict[Fence, Order] = {}
    for place, is_lost, wish in changed:
        fence = fences[int(place)]
        if is_lost:
            lost.add(fence)
        else:
            orders[fence] = _order(wish)
    return Renewal(frozenset(lost), orders)


def _order(wish: str | None) -> Order:
    return Order.CANCEL if wish in (Wish.CANCEL, Wish.DELETE) else Order.SUPERSEDED


def begin(world: World, fences: Sequence[Fence], *, isolated: bool, once: bool) -> Steps[frozenset[Fence]]:
    """Mark bodies as started, durably, before they start. Those not answered must not start."""
    yield from absorb(world)
    start = {"claims": pack(fences), "isolated": isolated, "once": once}
    started = yield Statement(SQL["begin"], start)
    return frozenset(Fence(*values) for values in started)


def report(progress: Mapping[Fence, str]) -> Steps[None]:
    """Progress of running jobs; silently dropped where the fence no longer holds."""
    for fence, text in progress.items():
        yield Statement(SQL["report"], fence._asdict() | {"progress": text})


def disown(world: World, worker: str, held: Sequence[Fence]) -> Steps[int]:
    """Hand back what the store believes this worker holds beyond `held`.

    Said by a worker whose claim was committed while its answer got lost: it never started those, and its
    lease, which it goes on renewing, would keep everybody else from them.
    """
    known = frozenset(held)
    borrowed = yield Statement(SQL["borrowed"], {"worker": worker})
    strays = [fence for values in borrowed if (fence := Fence(*values)) not in known]
    verdict = Release(note="its claim was never received")
    yield from settle(world, worker, [Settlement(fence, verdict) for fence in strays])
    return len(strays)
