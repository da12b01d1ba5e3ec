"""Nothing asked for is lost, nothing runs that was not asked for, and what arrives is what was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker.history import Asked, Body, History, Row
from tests.chaos.checker.witness import Witness

BY_ITSELF = ("tick", "pulse")
"""What bodies that nobody asked for say in place of an operation."""
RECENT = 10.0


def no_loss(history: History) -> Iterator[Witness]:
    """Every acknowledged request has a job, and every job that has an end has come to it."""
    rows = {row.id: row for row in history.last}
    for asked in _placed(history):
        if asked.id is not None and asked.id not in rows and asked.decision != "pending":
            yield Witness("NoLoss", f"{asked.op} was acknowledged and its job is gone", (asked,))
    for row in history.last:
        if row.is_live and not _is_endless(history, row):
            yield Witness("NoLoss", f"job {row.id} ({row.task}) never ended", (row,))


def success_has_run(history: History) -> Iterator[Witness]:
    """A job is done only if a body of its came to its end."""
    well = {body.id for body in history.bodies if body.outcome == "ok"}
    for row in history.last:
        if row.state == "done" and row.id not in well and not row.queue.startswith("duly."):
            yield Witness("SuccessHasRun", f"job {row.id} is done and no body of its ended well", (row,))


def no_swallow(history: History) -> Iterator[Witness]:
    """A request that was merged into a waiting job is served by a run that starts afterwards."""
    rows = {row.id: row for row in history.last}
    starts: dict[str, float] = {}
    for body in history.bodies:
        starts[body.id] = max(starts.get(body.id, 0.0), body.started)
    for asked in _placed(history):
        row = rows.get(asked.id or "")
        if asked.decision != "kept" or row is None or history.task(asked.task).unique_for is not None:
            continue
        if row.state == "done" and starts.get(row.id, 0.0) < asked.called:
            yield Witness(
                "DedupNoSwallow", f"{asked.op} was merged into a job and never served", (asked, row)
            )


def no_phantom(history: History) -> Iterator[Witness]:
    """No body runs for an operation nobody called."""
    known = {asked.op for asked in history.asked}
    for body in history.bodies:
        if body.op not in known and not body.op.startswith(BY_ITSELF):
            yield Witness("NoPhantom", f"a body ran for {body.op!r}, which nobody asked for", (body,))


def atomic_enqueue(history: History) -> Iterator[Witness]:
    """What is asked for in a caller's transaction exists if, and only after, that transaction commits."""
    bodies: dict[str, list[Body]] = defaultdict(list)
    for body in history.bodies:
        bodies[body.op].append(body)
    rows = {row.id: row for row in history.last}
    endings = {ending.op: ending for ending in history.endings}
    for asked in history.asked:
        if not asked.in_transaction:
            continue
        history.judged["AtomicEnqueue"] += 1
        committed = _is_committed(history, asked)
        ran, row = bodies.get(asked.op, []), rows.get(asked.id or "")
        if committed is False and (ran or (row is not None and asked.key is None)):
            events = (asked, *ran[:1], *([row] if row else []))
            yield Witness("AtomicEnqueue", f"{asked.op} was rolled back and exists", events)
        ending = endings.get(asked.op)
        if ending is not None and ran and ran[0].started < ending.called:
            yield Witness("AtomicEnqueue", f"{asked.op} ran before its commit", (asked, ending, ran[0]))
        if committed and row is None and asked.key is None and asked.is_acknowledged:
            yield Witness("AtomicEnqueue", f"{asked.op} was committed and its job is not there", (asked,))


def fidelity(history: History) -> Iterator[Witness]:
    """Arguments arrive as they were sent."""
    sent = {asked.op: asked for asked in history.asked}
    for body in history.bodies:
        asked = sent.get(body.op)
        if asked is not None and asked.digest != body.digest:
            yield Witness("Fidelity", f"{body.op} did not get the arguments it was sent", (asked, body))


def _placed(history: History) -> Iterator[Asked]:
    """Requests of which it is known that they were stored."""
    for asked in history.asked:
        is_stored = not asked.in_transaction or _is_committed(history, asked)
        if asked.kind == "enqueue" and asked.is_acknowledged and is_stored:
            yield asked


def _is_committed(history: History, asked: Asked) -> bool | None:
    """None when nobody knows."""
    if history.orders is not None:
        return asked.op in history.orders
    ending = next((ending for ending in history.endings if ending.op == asked.op), None)
    if ending is None or not ending.commits:
        return False
    return True if ending.is_acknowledged else None


def _is_endless(history: History, row: Row) -> bool:
    """Perpetual tasks, schedules, and the ticks that were put just before the end."""
    is_new = row.tick is not None and row.due > history.drained_wall - RECENT
    return history.task(row.task).perpetual or row.queue.startswith("duly.") or is_new
