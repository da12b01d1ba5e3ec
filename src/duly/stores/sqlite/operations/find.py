"""find, count, census, explain: reading, never changing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.job import HistoryLine, Job, State
from duly.stores.contract import Census, Page, Scope, Selection, Standing
from duly.stores.drive import Statement, Steps
from duly.stores.reports import expiry_words
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.intake import pending_of
from duly.stores.sqlite.operations.look import Look
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.select import matching
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.workers import SQL as WORKERS
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.arrivals import is_selected, pending_job
from duly.stores.tables.instants import instant, instant_or_none
from duly.stores.tables.rows import job_of

SQL = statements("find")


def find(world: World, selection: Selection, page: Page) -> Steps[list[Job]]:
    generations = yield from matching(selection, before=page.before, limit=page.limit)
    rows = yield from world.rows(generations)
    jobs = yield from jobs_of(world, rows, with_history=page.with_history)
    if page.before is None and (selection.ids or selection.key is not None):
        jobs += yield from _pending(selection)
    return jobs[: page.limit]


def jobs_of(world: World, rows: Sequence[Row], *, with_history: bool = False) -> Steps[list[Job]]:
    """Rows as people see them."""
    leases = yield from _leases(world, {row.worker for row in rows if row.state is State.RUNNING})
    histories = (yield from histories_of(rows)) if with_history else {}
    return [
        job_of(row, world.moment.lease_end(leases.get(row.worker)), histories.get(row.entered, ()))
        for row in rows
    ]


def _leases(world: World, workers: set[str]) -> Steps[dict[str, int]]:
    """Ends of leases by worker; one from another boot has none."""
    if not workers:
        return {}
    known = {"workers": pack(list(workers)), "boot_id": world.moment.boot_id}
    return dict((yield Statement(WORKERS["leases"], known)))


def histories_of(rows: Sequence[Row]) -> Steps[dict[int, list[HistoryLine]]]:
    """The lines of each job, by the generation it was created with; its row may tell the last of them."""
    found = yield Statement(SQL["history"], {"jobs": pack([row.entered for row in rows])})
    told = [_told(row) for row in rows if row.event is not None]
    histories: dict[int, list[HistoryLine]] = {row.entered: [] for row in rows}
    for job, at, event, epoch, generation, attempt, worker, started_at, note in (*found, *told):
        line = HistoryLine(
            at=instant(at),
            event=event,
            epoch=epoch,
            generation=generation,
            attempt=attempt,
            worker=worker,
            started_at=instant_or_none(started_at),
            note=note,
        )
        histories[job].append(line)
    return histories


def _told(row: Row) -> tuple[Any, ...]:
    end = (row.epoch, row.generation, row.attempt, row.worker, row.started_at)
    return row.entered, row.finished_at, row.event, *end, ""


def _pending(selection: Selection) -> Steps[list[Job]]:
    """A committed request is no secret, even before the engine has placed it."""
    arrivals = yield from pending_of(selection.ids, selection.key)
    return [pending_job(arrival) for arrival in arrivals if is_selected(arrival, selection)]


def census(world: World, *, with_finished: bool, most: int | None) -> Steps[Census]:
    """Counts for people."""
    live = yield Statement(SQL["census"])
    has_finished = with_finished and (yield from _are_countable(most))
    ended: Sequence[tuple[Any, ...]] = (yield Statement(SQL["census of finished"])) if has_finished else []
    jobs = {(task, queue, State(state)): size for task, queue, state, size in (*live, *ended)}
    oldest: dict[str, datetime] = {}
    look = yield from Look.read(world)
    for queue, _, _, ready_at in look.tracks:
        if ready_at <= world.now:
            oldest[queue] = min(oldest.get(queue, instant(ready_at)), instant(ready_at))
    tallies: dict[str, int] = dict((yield Statement(SQL["tallies"])))
    suppressed, refused, superseded = (
        tallies.get(name, 0) for name in ("suppressed", "refused", "superseded")
    )
    return Census(jobs, oldest, suppressed, refused, superseded, has_finished=has_finished)


def _are_countable(most: int | None) -> Steps[bool]:
    """Whether the finished jobs are so few; more than one too many are not looked at."""
    if most is None:
        return True
    ((seen,),) = yield Statement(SQL["some finished"], {"most": most + 1})
    return bool(seen <= most)


def explain(world: World, job_id: str) -> Steps[Standing | None]:
    """Every condition of the claim for one job, each true or false."""
    row = yield from world.row(job_id)
    if row is None:
        return None
    is_waiting = row.state is State.WAITING
    expires_at = instant_or_none(row.expires_at)
    conditions = (
        ("waiting", is_waiting, f"it is {row.state}{f' ({row.reason})' if row.reason else ''}"),
        ("due", not is_waiting or row.ready_at <= world.now, f"ready at {instant(row.ready_at).isoformat()}"),
        ("first of its key", not row.is_parked, (yield from _blocker(world, row))),
        ("task not held", *(yield from _held(world, Scope.TASK, row.task))),
        ("queue not held", *(yield from _held(world, Scope.QUEUE, row.queue))),
        ("not expired", row.expires_at is None or row.expires_at > world.now, expiry_words(expires_at)),
        ("known to a live worker", *(yield from _known(world, row))),
    )
    (job,) = yield from jobs_of(world, [row], with_history=True)
    return Standing(job, conditions)


def _blocker(world: World, row: Row) -> Steps[str]:
    running = (yield from world.running(row.serial)) if row.serial is not None else []
    first = (yield from world.row(running[0].id)) if running else None
    if first is None:
        return "no other run of its key"
    leases = yield from _leases(world, {first.worker})
    until = world.moment.lease_end(leases.get(first.worker)).isoformat()
    return f"run {first.id} holds the key on {first.worker} until {until}"


def _held(world: World, scope: Scope, name: str) -> Steps[tuple[bool, str]]:
    found = yield Statement(SQL["switch"], {"scope": scope, "name": name, "now": world.now})
    if not found:
        return True, f"{scope} {name!r} is open"
    ((stamped, reason),) = found
    until = f"until {instant(stamped).isoformat()}" if stamped is not None else "until somebody resumes it"
    return False, f"{scope} {name!r} is held {until}{f': {reason}' if reason else ''}"


def _known(world: World, row: Row) -> Steps[tuple[bool, str]]:
    live = yield Statement(WORKERS["alive"], world.moment.lease())
    if not live:
        return False, "no worker is alive: start one with `duly worker`"
    knowing = [name for name, tasks in live if row.task in json.loads(tasks)]
    if not knowing:
        return False, f"none of {len(live)} live workers knows the task {row.task!r}"
    return True, f"known to {', '.join(knowing[:3])}"
