"""find, count, census, explain: reading, never changing."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime

from duly.job import LIVE, Job, State
from duly.lifecycle import legible
from duly.stores.contract import Census, Page, Scope, Selection, Standing
from duly.stores.memory.world import Row, World
from duly.stores.reports import COUNTED, LATEST, TASKS_OF, FailureGroup, Found, Search, expiry_words


def matching(world: World, selection: Selection) -> list[Row]:
    """Newest request first."""
    rows = [row for row in world.rows.values() if _matches(row, selection)]
    return sorted(rows, key=lambda row: -row.generation)


def _matches(row: Row, selection: Selection) -> bool:
    error = legible(selection.error or "").lower()
    return (
        (not selection.ids or row.id in selection.ids)
        and (not selection.tasks or row.task in selection.tasks)
        and (not selection.states or row.state in selection.states)
        and (not selection.queues or row.queue in selection.queues)
        and (selection.key is None or row.key == selection.key)
        and (selection.fingerprint is None or row.fingerprint == selection.fingerprint)
        and error in (row.error or "").lower()
    )


def find(world: World, selection: Selection, page: Page) -> list[Job]:
    rows = matching(world, selection)
    if page.before is not None:
        rows = [row for row in rows if row.generation < page.before]
    return [world.job(row, with_history=page.with_history) for row in rows[: page.limit]]


def search(world: World, selection: Selection, search: Search) -> Found:
    """Free text among the jobs of a selection, as deep as it may go."""
    rows = [row for row in matching(world, selection) if row.generation < (search.before or math.inf)]
    found: list[Row] = []
    for number, row in enumerate(rows, start=1):
        if search.fits(row.key, row.arguments, row.error):
            found.append(row)
        if number < len(rows) and (number >= search.depth or len(found) >= search.limit):
            return Found([world.job(one) for one in found], row.generation)
    return Found([world.job(one) for one in found], None)


def count(world: World, selection: Selection) -> int:
    return sum(1 for row in world.rows.values() if _matches(row, selection))


def census(world: World, *, with_finished: bool, most: int | None) -> Census:
    jobs: Counter[tuple[str, str, State]] = Counter()
    oldest: dict[str, datetime] = {}
    now = world.now()
    finished = sum(row.state not in LIVE for row in world.rows.values())
    has_finished = with_finished and (most is None or finished <= most)
    for row in world.rows.values():
        if has_finished or row.state in LIVE:
            jobs[row.task, row.queue, row.state] += 1
        if row.state is State.WAITING and not row.is_parked and row.ready_at <= now:
            oldest[row.queue] = min(oldest.get(row.queue, row.ready_at), row.ready_at)
    tallies = world.tallies
    counted = (tallies["suppressed"], tallies["refused"], tallies["superseded"])
    return Census(dict(jobs), oldest, *counted, has_finished=has_finished)


def failures(world: World, limit: int) -> list[FailureGroup]:
    """Errors by their names, the one that happened last first."""
    latest = sorted((row for row in world.rows.values() if row.failed_at), key=_failed_at)[-LATEST:]
    seen = {row.fingerprint or "": _failed_at(row) for row in latest}
    newest_first = sorted(sorted(seen.items()), key=lambda one: one[1], reverse=True)
    return [_group(world, name, last_seen) for name, last_seen in newest_first[:limit]]


def _group(world: World, name: str, last_seen: datetime) -> FailureGroup:
    rows = matching(world, Selection(fingerprint=name))
    return FailureGroup(
        fingerprint=name,
        count=min(len(rows), COUNTED),
        first_seen=_failed_at(rows[-1]),
        last_seen=last_seen,
        tasks=tuple(sorted({row.task for row in rows[:TASKS_OF]})),
        sample=world.job(rows[0]),
    )


def _failed_at(row: Row) -> datetime:
    assert row.failed_at is not None
    return row.failed_at


def explain(world: World, job_id: str) -> Standing | None:
    """Every condition of the claim for one job, each true or false."""
    row = world.rows.get(job_id)
    if row is None:
        return None
    now = world.now()
    is_waiting = row.state is State.WAITING
    conditions = (
        ("waiting", is_waiting, f"it is {row.state}{f' ({row.reason})' if row.reason else ''}"),
        ("due", not is_waiting or row.ready_at <= now, f"ready at {row.ready_at.isoformat()}"),
        ("first of its key", not row.is_parked, _blocker(world, row)),
        ("task not held", *_held(world, Scope.TASK, row.task)),
        ("queue not held", *_held(world, Scope.QUEUE, row.queue)),
        ("not expired", row.expires_at is None or row.expires_at > now, expiry_words(row.expires_at)),
        ("known to a live worker", *_known(world, row)),
    )
    return Standing(world.job(row, with_history=True), conditions)


def _blocker(world: World, row: Row) -> str:
    running = world.live(row.serial, State.RUNNING)
    if not running:
        return "no other run of its key"
    first = running[0]
    return f"run {first.id} holds the key on {first.worker} until {world.lease_end(first).isoformat()}"


def _held(world: World, scope: Scope, name: str) -> tuple[bool, str]:
    switch = world.switches.get((scope, name))
    if switch is None or (switch.until is not None and switch.until <= world.now()):
        return True, f"{scope} {name!r} is open"
    until = f"until {switch.until.isoformat()}" if switch.until else "until somebody resumes it"
    return False, f"{scope} {name!r} is held {until}{f': {switch.reason}' if switch.reason else ''}"


def _known(world: World, row: Row) -> tuple[bool, str]:
    live = [presence for worker, presence in world.workers.items() if world.has_lease(worker)]
    if not live:
        return False, "no worker is alive: start one with `duly worker`"
    knowing = [presence.card.name for presence in live if row.task in presence.card.tasks]
    if not knowing:
        return False, f"none of {len(live)} live workers knows the task {row.task!r}"
    return True, f"known to {', '.join(knowing[:3])}"
