"""What an operator's order does to one job."""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import FINISHED, LIVE, State, Wish
from duly.lifecycle import move
from duly.stores.contract import Amended, Amendment, Cancel, Delete, Postpone, Revive
from duly.stores.drive import Steps
from duly.stores.tables.instants import instant, stamp
from duly.stores.tables.rows import R, Row, World, blame, expire_after

Rival = tuple[str, int, bool]
"""Another job of the same key: its id, its generation, whether it waits."""


def obey(world: World[R], row: R, amendment: Amendment, by: str, rivals: Sequence[Rival]) -> Steps[Amended]:
    """Carry an order out, or say why it has no effect."""
    match amendment:
        case Cancel():
            return (yield from _cancel(world, row, by))
        case Delete():
            return (yield from _delete(world, row, by))
        case Revive():
            return (yield from _revive(world, row, by, rivals))
        case Postpone():
            return (yield from _postpone(world, row, amendment, by))


def needs_rivals(row: Row, amendment: Amendment) -> bool:
    """Whether others of its key have a say."""
    return isinstance(amendment, Revive) and row.key is not None and row.state not in LIVE


def _cancel(world: World[R], row: R, by: str) -> Steps[Amended]:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    yield from world.note(row, "cancel", by)
    if row.state is State.RUNNING:
        row.wish = row.wish if row.wish is Wish.DELETE else Wish.CANCEL
        yield from world.tell(row)
        return Amended(row.id, took_effect=True, reason="asked to stop")
    yield from world.finish(row, "cancel", "cancelled")
    return Amended(row.id, took_effect=True, reason="cancelled")


def _delete(world: World[R], row: R, by: str) -> Steps[Amended]:
    if row.state is State.RUNNING:
        yield from world.note(row, "delete", by)
        row.wish = Wish.DELETE
        yield from world.tell(row)
        return Amended(row.id, took_effect=True, reason="asked to stop, then deleted")
    yield from world.remove(row)
    yield from world.promote(row.serial)
    return Amended(row.id, took_effect=True, reason="deleted")


def _revive(world: World[R], row: R, by: str, rivals: Sequence[Rival]) -> Steps[Amended]:
    if row.state in LIVE:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    obstacle = _obstacle(row, rivals)
    if obstacle:
        return Amended(row.id, took_effect=False, reason=obstacle)
    yield from world.reopen(row)
    _start_afresh(row, world.now)
    yield from world.revive(row)
    yield from world.unmark(row.serial)
    yield from world.note(row, "revive", by)
    return Amended(row.id, took_effect=True, reason="waiting")


def _obstacle(row: Row, rivals: Sequence[Rival]) -> str:
    """Why the key does not allow another run, if it does not."""
    newer = [(generation, job_id) for job_id, generation, _ in rivals if generation > row.generation]
    if newer:
        return f"a newer request exists: {max(newer)[1]}"
    waiting = [job_id for job_id, _, is_waiting in rivals if is_waiting]
    # One key, one waiting job: to revive a second would have it run twice.
    return f"already waiting for this key: {waiting[0]}" if waiting else ""


def _start_afresh(row: Row, now: int) -> None:
    row.state = move(row.state, "revive")
    row.forget_claim()
    row.cycle += 1
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = row.finished_at = row.forget_at = row.superseded_by = row.wish = None
    blame(row, None, now)
    row.result = row.result_until = None
    row.is_suspect = False
    row.ready_at = row.due = now
    expire_after(row, row.due)
    row.reason, row.worker = "", ""


def _postpone(world: World[R], row: R, amendment: Postpone, by: str) -> Steps[Amended]:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    if row.state is State.RUNNING:
        row.wish = row.wish or Wish.HURRY
        yield from world.tell(row)
        return Amended(row.id, took_effect=True, reason="running: goes on at once")
    row.ready_at = world.now if amendment.at is None else stamp(amendment.at)
    yield from world.rearrange(row)
    yield from world.note(row, "postpone", by)
    return Amended(row.id, took_effect=True, reason=f"ready at {instant(row.ready_at).isoformat()}")
