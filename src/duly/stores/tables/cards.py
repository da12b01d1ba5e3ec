"""A worker's card as columns, and back."""

from __future__ import annotations

import json
from typing import Any

from duly.stores.contract import WorkerCard
from duly.stores.tables.instants import instant, stamp


def card_columns(card: WorkerCard) -> dict[str, Any]:
    """What is written of a worker."""
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


def card_of(*columns: Any) -> WorkerCard:
    """What was written."""
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
