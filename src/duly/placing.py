"""Where a request goes: to the run that makes it, into the caller's transaction, or straight to the store.

In a caller's transaction it goes to the outbox, where there is one; until a relay has carried it on, what is
asked about it is answered from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from duly import tracing
from duly.bundle import patterns
from duly.errors import LeaseLost
from duly.job import Decision, Job, Request
from duly.outbox.contract import Outbox
from duly.run import Binding, current_run
from duly.stores.contract import Page, Placed, Selection, Store


class Doors(Protocol):
    """Where requests can go."""

    @property
    def store(self) -> Store: ...
    @property
    def outbox(self) -> Outbox | None: ...


def place(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    """Store requests, or leave them with the run that makes them for its own key."""
    if not tracing.is_wanted():
        return _place(doors, requests, connection)
    with tracing.sending(requests) as sending:
        return sending.answered(_place(doors, sending.requests, connection))


def _place(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    if connection is None and current_run.get() is None and len(requests):
        return _put(doors.store, requests)
    kept, others = _parted(requests, connection)
    if not others:
        return _in_order(requests, kept, [])
    if connection is not None:
        return _in_order(requests, kept, _offer(doors, others, connection))
    if (binding := _joined(doors)) is not None:
        return _in_order(requests, kept, binding.place(others))
    return _in_order(requests, kept, _put(doors.store, others))


def _put(store: Store, requests: Sequence[Request]) -> list[Placed]:
    placed = store.run(store.put(requests))
    store.ring()
    return placed


async def aplace(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    """The async twin of place."""
    if not tracing.is_wanted():
        return await _aplace(doors, requests, connection)
    with tracing.sending(requests) as sending:
        return sending.answered(await _aplace(doors, sending.requests, connection))


async def _aplace(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    if connection is None and current_run.get() is None and len(requests):
        return await _aput(doors.store, requests)
    kept, others = _parted(requests, connection)
    if not others:
        return _in_order(requests, kept, [])
    if connection is not None:
        return _in_order(requests, kept, await _aoffer(doors, others, connection))
    if (binding := _joined(doors)) is not None:
        return _in_order(requests, kept, await binding.aplace(others))
    return _in_order(requests, kept, await _aput(doors.store, others))


async def _aput(store: Store, requests: Sequence[Request]) -> list[Placed]:
    placed = await store.arun(store.put(requests))
    store.ring()
    return placed


def _offer(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    if (outbox := doors.outbox) is not None:  # the store itself may be away: it is not asked
        return outbox.run_on(connection, outbox.append(requests))
    return doors.store.run_on(connection, doors.store.offer(requests))


async def _aoffer(doors: Doors, requests: Sequence[Request], connection: Any) -> list[Placed]:
    if (outbox := doors.outbox) is not None:
        return await outbox.arun_on(connection, outbox.append(requests))
    return await doors.store.arun_on(connection, doors.store.offer(requests))


def _joined(doors: Doors) -> Binding | None:
    """Inside an exactly-once body, what ties it to the same store: its requests are part of its effects."""
    run = current_run.get()
    binding = None if run is None or not run.is_live_here else run.binding
    return binding if binding is not None and binding.joins(doors.store) else None


def _parted(requests: Sequence[Request], connection: Any) -> tuple[frozenset[str], Sequence[Request]]:
    kept = _left_with_run(requests, connection)
    return kept, [request for request in requests if request.id not in kept] if kept else requests


def _left_with_run(requests: Sequence[Request], connection: Any) -> frozenset[str]:
    """A request for the key of the run that makes it is settled with that run, never beside it.

    Unless it is made in a transaction of the body's own, whose commit or rollback must decide.
    """
    run = current_run.get()
    if run is None:
        return frozenset()
    if run.is_lost:
        raise LeaseLost(f"Run {run.id} lost its lease: what it asks for is refused.")
    if connection is not None or not any(map(run.owns, patterns(requests))):
        return frozenset()
    return frozenset(request.id for request in requests if run.owns(request) and run.take(request))


def _in_order(requests: Sequence[Request], kept: frozenset[str], placed: Sequence[Placed]) -> list[Placed]:
    if not kept:
        return list(placed)
    answers = iter(placed)
    return [
        Placed(request.id, 0, Decision.PENDING) if request.id in kept else next(answers)
        for request in requests
    ]


# --- what handles ask -----------------------------------------------------------------------------


def look_up(doors: Doors, job_id: str) -> Job | None:
    """One job, or None. On its way from the outbox to the store it is in both, never in neither."""
    found = _found(doors.store, job_id)
    if found is None and (outbox := doors.outbox) is not None:
        return outbox.run(outbox.find(job_id)) or _found(doors.store, job_id)
    return found


async def alook_up(doors: Doors, job_id: str) -> Job | None:
    """The async twin of look_up."""
    found = await doors.store.arun(doors.store.find(Selection(ids=(job_id,)), Page(1)))
    if not found and doors.outbox is not None:
        return await asyncio.to_thread(look_up, doors, job_id)
    return found[0] if found else None


def _found(store: Store, job_id: str) -> Job | None:
    found = store.run(store.find(Selection(ids=(job_id,)), Page(1)))
    return found[0] if found else None


def withdraw(doors: Doors, job_id: str) -> bool:
    """Take a request back before any relay has borrowed it; False where there is nothing to take back.

    From then on it belongs to the store: a relay that froze with it could deliver it at any time.
    """
    outbox = doors.outbox
    return outbox is not None and bool(outbox.run(outbox.withdraw(job_id)))
