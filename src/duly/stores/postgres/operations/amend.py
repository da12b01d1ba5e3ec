"""amend: an operator's order over a selection.

What the order is given to stands still meanwhile: its serial is locked, or, where it has none, the row that
says where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import FINISHED, LIVE, State, Wish
from duly.lifecycle import move
from duly.stores.contract import Amended, Amendment, Cancel, Delete, Postpone, Revive, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.again import Repeat
from duly.stores.postgres.operations.arrays import integers, stored
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.select import matching
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import instant, stamp

SQL = statements("amend")


def amend(
    world: World, selection: Selection, amendment: Amendment, *, by: str, limit: int
) -> Steps[list[Amended]]:
    generations = yield from matching(world, selection, limit=limit, spares=selection.spares)
    yield from _hold(world, generations, amendment)
    amended: list[Amended] = []
    for generation in generations:
        # Read anew each time: an order to one job may promote the next.
        rows = yield from world.rows([generation])
        if rows:
            amended.append((yield from _amend_one(world, rows[0], amendment, by)))
    return amended


def _hold(world: World, generations: Sequence[int], amendment: Amendment) -> Steps[None]:
    rows = yield from world.rows(generations)
    if isinstance(amendment, Revive):  # live jobs are left alone, so nobody need wait for them
        rows = [row for row in rows if row.state in FINISHED]
    yield from serials.lock(row.serial for row in rows if row.serial is not None)
    free = [row.generation for row in rows if row.serial is None]
    if not free:
        return
    wanted = {"generations": integers(free)}
    held = {generation for (generation,) in (yield Statement(SQL["hold_running"], wanted))}
    held |= {generation for (generation,) in (yield Statement(SQL["hold_ready"], wanted))}
    held |= {generation for (generation,) in (yield Statement(SQL["hold_ended"], wanted))}
    there = {generation for (generation,) in (yield Statement(SQL["there"], wanted))}
    if there - held:  # it moved while we were looking for it
        raise Repeat


def _amend_one(world: World, row: Row, amendment: Amendment, by: str) -> Steps[Amended]:
    match amendment:
        case Cancel():
            return (yield from _cancel(world, row, by))
        case Delete():
            return (yield from _delete(world, row, by))
        case Revive():
            return (yield from _revive(world, row, by))
        case Postpone():
            return (yield from _postpone(world, row, amendment, by))


def _cancel(world: World, row: Row, by: str) -> Steps[Amended]:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    yield from world.note(row, "cancel", by)
    if row.state is State.RUNNING:
        row.wish = row.wish if row.wish is Wish.DELETE else Wish.CANCEL
        yield from world.tell(row)
        return Amended(row.id, took_effect=True, reason="asked to stop")
    yield from world.finish(row, "cancel", "cancelled")
    return Amended(row.id, took_effect=True, reason="cancelled")


def _delete(world: World, row: Row, by: str) -> Steps[Amended]:
    if row.state is State.RUNNING:
        yield from world.note(row, "delete", by)
        row.wish = Wish.DELETE
        yield from world.tell(row)
        return Amended(row.id, took_effect=True, reason="asked to stop, then deleted")
    yield from world.remove(row)
    yield from world.promote(row.serial)
    return Amended(row.id, took_effect=True, reason="deleted")


def _revive(world: World, row: Row, by: str) -> Steps[Amended]:
    if row.state in LIVE:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    rival = yield from _rival(row)
    if rival:
        return Amended(row.id, took_effect=False, reason=rival)
    yield from world.write_out(row)
    _start_afresh(row, world.now)
    yield from world.revive(row)
    yield from world.unmark(row.serial)
    yield from world.note(row, "revive", by)
    return Amended(row.id, took_effect=True, reason="waiting")


def _rival(row: Row) -> Steps[str]:
    """Why the key does not allow another run, if it does not."""
    if row.key is None:
        return ""
    of_key = {"key": stored(row.key), "generation": row.generation, "task": stored(row.track.task)}
    others = yield Statement(SQL["rivals"], of_key)
    newer = [(generation, job_id) for job_id, generation, _ in others if generation > row.generation]
    if newer:
        return f"a newer request exists: {max(newer)[1]}"
    waiting = [job_id for job_id, _, is_waiting in others if is_waiting]
    # One key, one waiting job: to revive a second would have it run twice.
    return f"already waiting for this key: {waiting[0]}" if waiting else ""


def _start_afresh(row: Row, now: int) -> None:
    row.state = move(row.state, "revive")
    row.cycle += 1
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = row.finished_at = row.forget_at = row.superseded_by = row.wish = row.error = None
    row.result = row.result_until = None
    row.is_suspect = False
    row.ready_at = row.due = now
    row.expires_at = row.expiry
    row.reason, row.worker = "", ""


def _postpone(world: World, row: Row, amendment: Postpone, by: str) -> Steps[Amended]:
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
