"""amend: an operator's order over a selection."""

from __future__ import annotations

from duly.ids import new_nonce
from duly.job import FINISHED, LIVE, State, Wish
from duly.lifecycle import move
from duly.stores.contract import Amended, Amendment, Cancel, Delete, Postpone, Revive, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.select import matching
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant, stamp

SQL = statements("amend")


def amend(
    world: World, selection: Selection, amendment: Amendment, *, by: str, limit: int
) -> Steps[list[Amended]]:
    yield from absorb(world)
    generations = yield from matching(selection, limit=limit, spared=selection.spares)
    amended: list[Amended] = []
    for row_id in [row.id for row in (yield from world.rows(generations))]:
        row = yield from world.row(row_id)  # read anew: an order to one job may promote the next
        assert row is not None, "no order to one job removes another"
        amended.append((yield from _amend_one(world, row, amendment, by)))
    return amended


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
        yield from world.save(row)
        return Amended(row.id, took_effect=True, reason="asked to stop")
    yield from world.finish(row, "cancel", "cancelled")
    return Amended(row.id, took_effect=True, reason="cancelled")


def _delete(world: World, row: Row, by: str) -> Steps[Amended]:
    if row.state is State.RUNNING:
        yield from world.note(row, "delete", by)
        row.wish = Wish.DELETE
        yield from world.save(row)
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
    yield from world.renumber(row)
    _start_afresh(row, world.now)
    yield from world.save(row)
    yield from world.unmark(row.serial)
    yield from world.note(row, "revive", by)
    return Amended(row.id, took_effect=True, reason="waiting")


def _rival(row: Row) -> Steps[str]:
    """Why the key does not allow another run, if it does not."""
    if row.key is None:
        return ""
    others = yield Statement(SQL["rivals"], {"key": row.key, "task": row.task, "generation": row.generation})
    newer = [(generation, job_id) for job_id, generation, _ in others if generation > row.generation]
    if newer:
        return f"a newer request exists: {max(newer)[1]}"
    waiting = [job_id for job_id, _, state in others if state == State.WAITING]
    # One key, one waiting job: to revive a second would have it run twice.
    return f"already waiting for this key: {waiting[0]}" if waiting else ""


def _start_afresh(row: Row, now: int) -> None:
    row.state = move(row.state, "revive")
    row.nonce = new_nonce()  # the claim that ended it did not end what comes now
    row.cycle += 1
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = row.finished_at = row.forget_at = row.superseded_by = row.wish = row.error = None
    row.result = row.result_until = None
    row.is_suspect = False
    row.ready_at = row.due = now
    row.expire_after(row.due)
    row.reason, row.worker = "", ""


def _postpone(world: World, row: Row, amendment: Postpone, by: str) -> Steps[Amended]:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    if row.state is State.RUNNING:
        row.wish = row.wish or Wish.HURRY
        yield from world.save(row)
        return Amended(row.id, took_effect=True, reason="running: goes on at once")
    row.ready_at = world.now if amendment.at is None else stamp(amendment.at)
    yield from world.save(row)
    yield from world.note(row, "postpone", by)
    return Amended(row.id, took_effect=True, reason=f"ready at {instant(row.ready_at).isoformat()}")
