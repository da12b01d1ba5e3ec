"""amend: an operator's order over a selection, and prune."""

from __future__ import annotations

from datetime import timedelta

from duly.ids import new_nonce
from duly.job import FINISHED, LIVE, State, Wish
from duly.lifecycle import move
from duly.stores.contract import Amended, Amendment, Cancel, Delete, Postpone, Revive, Selection
from duly.stores.memory.deliver import forget
from duly.stores.memory.find import matching
from duly.stores.memory.world import Row, World, expiry


def amend(world: World, selection: Selection, amendment: Amendment, *, by: str, limit: int) -> list[Amended]:
    rows = [row for row in matching(world, selection) if row.queue not in selection.spares]
    return [_amend_one(world, row, amendment, by) for row in rows[:limit]]


def _amend_one(world: World, row: Row, amendment: Amendment, by: str) -> Amended:
    match amendment:
        case Cancel():
            return _cancel(world, row, by)
        case Delete():
            return _delete(world, row, by)
        case Revive():
            return _revive(world, row, by)
        case Postpone():
            return _postpone(world, row, amendment, by)


def _cancel(world: World, row: Row, by: str) -> Amended:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    world.note(row, "cancel", by)
    if row.state is State.RUNNING:
        row.wish = row.wish if row.wish is Wish.DELETE else Wish.CANCEL
        return Amended(row.id, took_effect=True, reason="asked to stop")
    world.finish(row, "cancel", "cancelled")
    return Amended(row.id, took_effect=True, reason="cancelled")


def _delete(world: World, row: Row, by: str) -> Amended:
    if row.state is State.RUNNING:
        world.note(row, "delete", by)
        row.wish = Wish.DELETE
        return Amended(row.id, took_effect=True, reason="asked to stop, then deleted")
    del world.rows[row.id]
    world.promote(row.serial)
    return Amended(row.id, took_effect=True, reason="deleted")


def _revive(world: World, row: Row, by: str) -> Amended:
    if row.state in LIVE:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    rivals = [other for other in world.rows.values() if _is_of_key(other, row)]
    newer = [other for other in rivals if other.generation > row.generation]
    if newer:
        newest = max(newer, key=lambda other: other.generation)
        return Amended(row.id, took_effect=False, reason=f"a newer request exists: {newest.id}")
    waiting = [other for other in rivals if other.state is State.WAITING]
    if waiting:  # one key, one waiting job: to revive a second would have it run twice
        return Amended(row.id, took_effect=False, reason=f"already waiting for this key: {waiting[0].id}")
    row.state = move(row.state, "revive")
    row.generation = world.draw()
    row.nonce = new_nonce()  # the claim that ended it did not end what comes now
    row.cycle += 1
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = row.finished_at = row.forget_at = row.superseded_by = row.wish = None
    world.blame(row, None)
    row.result = row.result_until = None
    row.is_suspect = False
    row.ready_at = row.due = world.now()
    row.expires_at = expiry(row.due, row.expires_after)
    row.reason, row.worker = "", ""
    if row.serial is not None:
        world.markers.pop(row.serial, None)
    world.note(row, "revive", by)
    return Amended(row.id, took_effect=True, reason="waiting")


def _is_of_key(other: Row, row: Row) -> bool:
    return other is not row and row.key is not None and (other.task, other.key) == (row.task, row.key)


def _postpone(world: World, row: Row, amendment: Postpone, by: str) -> Amended:
    if row.state in FINISHED:
        return Amended(row.id, took_effect=False, reason=f"already {row.state}")
    if row.state is State.RUNNING:
        row.wish = row.wish or Wish.HURRY
        return Amended(row.id, took_effect=True, reason="running: goes on at once")
    row.ready_at = amendment.at or world.now()
    world.note(row, "postpone", by)
    return Amended(row.id, took_effect=True, reason=f"ready at {row.ready_at.isoformat()}")


ABSENCE = timedelta(days=1)
"""How long a worker that died without a word stays on the list, and a lock or a throttle that is over."""


def _forget_workers(world: World) -> None:
    busy = {row.worker for row in world.rows.values() if row.state is State.RUNNING}
    for worker, presence in list(world.workers.items()):
        is_gone = not world.has_lease(worker) and presence.seen_at <= world.now() - ABSENCE
        if is_gone and worker not in busy:
            del world.workers[worker]


def _forget_what_is_over(world: World) -> None:
    since, boot = world.now() - ABSENCE, world.clock.boot() - ABSENCE.total_seconds()
    for name in [name for name, held in world.locks.items() if held.until <= boot]:
        del world.locks[name]
    for place, switch in list(world.switches.items()):
        if switch.until is not None and switch.until <= since:
            del world.switches[place]


def prune(world: World, limit: int) -> int:
    """Delete what finished long ago, oldest first; markers stay."""
    now = world.now()
    for row in world.rows.values():
        if row.result_until is not None and row.result_until <= now:
            row.result = row.result_until = None
    old = [row for row in world.rows.values() if row.forget_at is not None and row.forget_at <= now]
    old.sort(key=lambda row: row.forget_at or now)
    for row in old[:limit]:
        del world.rows[row.id]
    _forget_workers(world)
    _forget_what_is_over(world)
    for serial in [serial for serial, window in world.windows.items() if window.until <= now]:
        del world.windows[serial]
    forget(world, now)
    for diary in world.diaries.values():
        for number in [number for number, kept in diary.items() if kept.until <= now]:
            del diary[number]
    return len(old[:limit])
