"""plan: from keys of changed rows to jobs, all of it under the write lock of one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from duly.job import Decision, Request, State
from duly.reactive.plan import Plan, Record, Sight, decide, request_for, sight_of
from duly.reactive.reaction import Reaction
from duly.stores.changes import FLOOD, Impossible, Planned
from duly.stores.drive import Statement, Steps, Trial
from duly.stores.following.adoption import scan_text
from duly.stores.sqlite.operations.batch import is_cut_short, pack
from duly.stores.sqlite.operations.put import put
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.sqlite.reactive.capture import ADOPTION, REACTION, shape_of
from duly.stores.sqlite.reactive.shape import Shape, key_text, stored
from duly.stores.tables.instants import instant_or_none, span, stamp_or_none

CHANGE = statements("change")
DOCUMENT = statements("document")


class Seen(NamedTuple):
    """A row that was looked at for one task."""

    key: str
    parts: tuple[Any, ...]
    is_quiet: bool
    sight: Sight | None


class Planning(NamedTuple):
    """What a look at one row led to."""

    seen: Seen
    record: Record | None
    plan: Plan


def plan(world: World, limit: int) -> Steps[Planned]:
    """Consume the oldest changes, for every task that follows their tables."""
    ((last, count),) = yield Statement(CHANGE["last"], {"limit": limit})
    if last is None:
        return Planned()
    if (yield from _is_flooded()):
        return (yield from _look_at_all())
    runs = 0
    for (source,) in (yield Statement(CHANGE["sources"], {"last": last})):
        for number, definition in (yield Statement(REACTION["of_source"], {"source": source})):
            batch = Batch(number, source, last)
            runs += yield from _plan_one(world, Reaction.read(definition), batch)
    yield Statement(CHANGE["consume"], {"last": last})
    return Planned(count, runs)


def has_changes() -> Steps[bool]:
    """Whether there is anything to plan or to scan."""
    return bool((yield Statement(CHANGE["is_any"])))


def _is_flooded() -> Steps[bool]:
    ((first, last),) = yield Statement(CHANGE["flood"])
    return bool(last - first >= FLOOD)


def _look_at_all() -> Steps[Planned]:
    """More changes than it is worth to go through: look at every row instead."""
    ((first, last),) = yield Statement(CHANGE["flood"])
    for (source,) in (yield Statement(CHANGE["all_sources"])):
        yield Statement(REACTION["scan_source"], {"source": source, "scan": scan_text()})
    yield Statement(CHANGE["consume"], {"last": last})
    return Planned(last - first + 1)


class Batch(NamedTuple):
    """Changes of one table up to a number, for one task."""

    reaction: int
    source: int
    last: int

    def named(self) -> dict[str, int]:
        return {"our_reaction": self.reaction, "our_source": self.source, "our_last": self.last}


def _plan_one(world: World, reaction: Reaction, batch: Batch) -> Steps[int]:
    try:
        shape = yield from shape_of(reaction)
        rows = yield Trial(shape.statement("sight"), batch.named())
    except (Impossible, sqlite3.OperationalError) as error:
        yield from ADOPTION.park(batch.reaction, str(error))
        return 0
    looks = [_seen(shape, row) for row in rows]
    looks = yield from _spare_changed(batch, looks)
    records = yield from records_of(batch.reaction, [look.key for look in looks])
    plannings = [
        Planning(
            look,
            records.get(look.key),
            decide(records.get(look.key), look.sight, reaction, world.moment.instant, ignores=look.is_quiet),
        )
        for look in looks
    ]
    yield from _end(world, plannings)
    jobs = yield from _put(world, shape, plannings)
    for planning in plannings:
        yield from _save(world, batch.reaction, planning, jobs.get(planning.seen.key))
    return len(jobs)


def _seen(shape: Shape, row: Sequence[Any]) -> Seen:
    width = len(shape.key)
    parts = tuple(row[:width])
    is_quiet, is_there, matches, *raw = row[width:]
    if not is_there:
        return Seen(key_text(parts), parts, bool(is_quiet), None)
    values = raw[: len(shape.watch)]
    sight = Sight(
        matches=bool(matches),
        seen=sight_of(shape.watch, values),
        values=dict(zip(shape.watch, values, strict=True)),
    )
    return Seen(key_text(parts), parts, bool(is_quiet), sight)


def _spare_changed(batch: Batch, looks: list[Seen]) -> Steps[list[Seen]]:
    """A row is not noted in silence while a change of it by its users is still to be planned."""
    if not any(look.is_quiet for look in looks):
        return looks
    given = {"last": batch.last, "source": batch.source}
    pending = {tuple(parts) for parts in (yield Statement(CHANGE["later"], given))}
    return [look for look in looks if not (look.is_quiet and tuple(stored(look.parts).values()) in pending)]


def records_of(reaction: int, keys: Sequence[str]) -> Steps[dict[str, Record]]:
    batch = pack(keys)
    if not is_cut_short(batch):
        found = yield Statement(DOCUMENT["load"], {"reaction": reaction, "keys": batch})
        return dict(map(_record, found))
    rows: list[Any] = []
    for key in keys:
        rows += yield Statement(DOCUMENT["load_one"], {"reaction": reaction, "key": key})
    return dict(map(_record, rows))


def _record(row: Sequence[Any]) -> tuple[str, Record]:
    key, seen, is_matched, job, since, told, state = row
    return key, Record(
        seen=seen,
        is_matched=bool(is_matched),
        job=job,
        job_state=None if state is None else State(state),
        since=instant_or_none(since),
        told=told,
    )


def _end(world: World, plannings: Sequence[Planning]) -> Steps[None]:
    """What waits for a row that no longer calls for it."""
    for _, record, decided in plannings:
        if decided.ends is None or record is None or record.job is None:
            continue
        row = yield from world.row(record.job)
        if row is not None and row.state is State.WAITING:
            is_gone = decided.ends is State.SKIPPED
            reason = "its row was deleted" if is_gone else "its row no longer matches"
            yield from world.finish(row, "expire" if is_gone else "cancel", reason)


def _put(world: World, shape: Shape, plannings: Sequence[Planning]) -> Steps[dict[str, str]]:
    """The jobs by key. One that waited already is put off to where the newest change wants it."""
    wanted = [planning for planning in plannings if planning.plan.run is not None]
    requests = [_request(shape, planning) for planning in wanted]
    placed = yield from put(world, requests)
    for request, answer, planning in zip(requests, placed, wanted, strict=True):
        if answer.decision is Decision.KEPT and answer.id != request.id:
            due = world.now + span(planning.plan.due_in)
            yield Statement(DOCUMENT["postpone"], {"id": answer.id, "due": due})
    return {planning.seen.key: answer.id for planning, answer in zip(wanted, placed, strict=True)}


def _request(shape: Shape, planning: Planning) -> Request:
    seen = planning.seen
    return request_for(shape.reaction, planning.plan, key=seen.key, parts=seen.parts, terms=shape.terms)


def _save(world: World, reaction: int, planning: Planning, job: str | None) -> Steps[None]:
    seen, before, decided = planning
    record = decided.record
    if record is None or (record == before and seen.sight is not None and record.is_matched):
        return
    record = record if job is None else replace(record, job=job)
    yield Statement(
        DOCUMENT["save"],
        {
            "reaction": reaction,
            "key": seen.key,
            "seen": record.seen,
            "is_matched": int(record.is_matched),
            "is_there": int(seen.sight is not None),
            "job": record.job,
            "since": stamp_or_none(record.since),
            "told": record.told,
            "now": world.now,
        }
        | stored(seen.parts),
    )
