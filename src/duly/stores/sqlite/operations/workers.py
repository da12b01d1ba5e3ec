"""workers, leave: who is there. A worker that left holds no lease, so its jobs are lent again."""

from __future__ import annotations

import json
from typing import Any

from duly.stores.contract import Attendance, WorkerCard
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant, stamp

SQL = statements("workers")


def card_columns(card: WorkerCard) -> dict[str, Any]:
    """A card as columns of duly_worker."""
    return {
        "id": card.id,
        "name": card.name,
        "host": card.host,
        "pid": card.pid,
        "started_at": stamp(card.started_at),
        "queues": json.dumps(card.queues),
        "tasks": json.dumps(card.tasks),
        "slots": card.slots,
        "version": card.version,
    }


def workers(world: World) -> Steps[list[Attendance]]:
    """Everybody who has not left, with the moment of the last sign of life."""
    found = yield Statement(SQL["list"], world.moment.lease())
    return [Attendance(_card(*columns), instant(seen_at), lease == 1) for *columns, seen_at, lease in found]


def _card(*columns: Any) -> WorkerCard:
    worker, name, host, pid, started_at, queues, tasks, slots, version = columns
    return WorkerCard(
        worker,
        name,
        host,
        pid,
        instant(started_at),
        queues=tuple(json.loads(queues)),
        tasks=tuple(json.loads(tasks)),
        slots=slots,
        version=version,
    )


def leave(worker: str) -> Steps[None]:
    """Give the lease back."""
    yield Statement(SQL["leave"], {"worker": worker})
