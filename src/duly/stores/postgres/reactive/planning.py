"""plan: from keys of changed rows to jobs, in one transaction.

The document is locked first, by the serial of its job, and its row read afterwards, in a snapshot of its own:
of two planners the one that comes second sees what the first has written, and the newer row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from duly.job import Decision, Request, State, serial_of
from duly.reactive.plan import Plan, Record, Sight, decide, request_for, sight_of
from duly.reactive.reaction import Reaction
from duly.stores import changes
from duly.stores.changes import FLOOD, Condition, Impossible, Planned
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import scan_text
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import booleans, integers, words
from duly.stores.postgres.operations.put import put
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World, digest
from duly.stores.postgres.reactive.capture import ADOPTION, REACTION, shape_of
from duly.stores.postgres.reactive.shape import SQL as ROWS
from duly.stores.postgres.reactive.shape import Shape
from duly.stores.tables.instants import instant_or_none, span, stamp_or_none

CHANGE = statements("change")


@dataclass(slots=True)
class Batch:
    """The keys to be planned for one task."""

    number: int
    source: int
    reaction: Reaction
    keys: dict[str, bool] = field(default_factory=dict[str, bool])
    """Each with whether it is only to be noted in silence."""

    def serial(self, key: str) -> str:
        """What the document is locked by."""
        return digest(str(serial_of(self.reaction.task, key)))


class Planning(NamedTuple):
    """What a look at one row led to."""

    key: str
    serial: str
    sight: Sight | None
    record: Record | None
    plan: Plan


def has_changes() -> Steps[bool]:
    """Whether there is anything to plan or to scan."""
    return bool((yield Statement(CHANGE["is_any"])))


def plan(world: World, limit: int) -> Steps[Planned]:
    """Consume changes, for every task that follows their tables."""
    yield from _make_room()
    yield from _heed_alarms()
    if (yield from _is_flooded()):
        return (yield from _look_at_all())
    consumed = yield Statement(CHANGE["consume"], {"limit": limit})
    if not consumed:
        return Planned()
    batches = yield from _batches(consumed)
    held = yield from serials.hold(world, {batch.serial(key) for batch in batches for key in batch.keys})
    yield Statement(ROWS["settings"])
    runs = 0
    for batch in batches:
        yield from _leave_for_later(batch, held)
        runs += yield from _plan_one(world, batch)
    return Planned(len(consumed), runs)


def examine(task: str, namespace: Callable[[str], str]) -> Steps[str | None]:
    """Why rows of a task cannot be looked at, if they cannot; then it is parked."""
    found = yield from ADOPTION.stored(task)
    if found is None or found.condition != Condition.ACTIVE:
        return None
    trouble: str | None
    try:
        shape = yield from shape_of(found.reaction)
        yield Statement(shape.statement("forget_strange_changes"), {"duly_source": found.source})
        yield Statement(shape.statement("forget_strange_documents"), {"duly_reaction": found.number})
        name = "trial" if found.scan is None else "trial_scan"
        trial = shape.statement(name, source=str(found.source))
        ((trouble,),) = yield Statement(ROWS["trouble"], {"statement": namespace(trial)})
    except Impossible as error:
        trouble = str(error)
    if trouble is not None:
        yield from ADOPTION.park(found.number, trouble)
    return trouble


def _heed_alarms() -> Steps[None]:
    for (source,) in set((yield Statement(CHANGE["alarms"]))):
        yield Statement(REACTION["scan_source"], {"source": source, "scan": scan_text()})


def _is_flooded() -> Steps[bool]:
    return bool((yield Statement(CHANGE["is_flood"], {"flood": FLOOD}))[0][0])


def _look_at_all() -> Steps[Planned]:
    """More changes than it is worth to go through: look at every row instead."""
    gone = yield Statement(CHANGE["drain"])
    for source, _ in gone:
        yield Statement(REACTION["scan_source"], {"source": source, "scan": scan_text()})
    return Planned(sum(count for _, count in gone))


def _make_room() -> Steps[None]:
    """Nobody planned for so long that triggers stopped appending; those that did not were alarmed."""
    for (sources,) in (yield Statement(CHANGE["empty_log"], {"limit": changes.LARGEST_LOG})):
        for source in sources or ():  # none while somebody's transaction is at it: then later
            yield Statement(REACTION["scan_source"], {"source": source, "scan": scan_text()})


def _batches(consumed: Iterable[Sequence[Any]]) -> Steps[list[Batch]]:
    by_source: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for source, *change in consumed:
        by_source[source].append(change)
    found = yield Statement(REACTION["of_sources"], {"sources": integers(sorted(by_source))})
    batches = [Batch(number, source, Reaction.read(text)) for source, number, text in found]
    for batch in batches:
        for key, directed, is_quiet in by_source[batch.source]:
            if directed is None or directed == batch.number:
                batch.keys[key] = bool(is_quiet) and batch.keys.get(key, True)
    return batches


def _leave_for_later(batch: Batch, held: set[str]) -> Steps[None]:
    """A document that somebody's transaction holds is not waited for."""
    later = [key for key in batch.keys if batch.serial(key) not in held]
    if later:
        yield append(batch.source, batch.number, {key: batch.keys.pop(key) for key in later})


def append(source: int, reaction: int, keys: dict[str, bool]) -> Statement:
    """Keys for one task, each with whether it is only to be noted."""
    given = {"keys": words(list(keys)), "quiet": booleans(keys.values())}
    return Statement(CHANGE["append"], given | {"source": source, "reaction": reaction})


def _plan_one(world: World, batch: Batch) -> Steps[int]:
    try:
        shape = yield from shape_of(batch.reaction)
    except Impossible as error:
        yield from ADOPTION.park(batch.number, str(error))
        return 0
    keys = yield from _without_changed(batch)
    if not keys:
        return 0
    records = yield from records_of([batch.serial(key) for key in keys])
    sights = yield from _sights(shape, keys)
    plannings = [
        _planning(world, batch, key, sight, records.get(batch.serial(key)))
        for key, sight in zip(keys, sights, strict=True)
    ]
    yield from _end(world, plannings)
    jobs = yield from _put(world, shape, plannings)
    yield from _save(world, batch, plannings, jobs)
    return len(jobs)


def _planning(world: World, batch: Batch, key: str, sight: Sight | None, record: Record | None) -> Planning:
    now, is_quiet = world.moment.instant, batch.keys[key]
    decided = decide(record, sight, batch.reaction, now, ignores=is_quiet)
    return Planning(key, batch.serial(key), sight, record, decided)


def _without_changed(batch: Batch) -> Steps[list[str]]:
    """A row is not noted in silence while a change of it by its users is still to be planned."""
    quiet = [key for key, is_quiet in batch.keys.items() if is_quiet]
    if not quiet:
        return list(batch.keys)
    found = yield Statement(CHANGE["later"], {"source": batch.source, "keys": words(quiet)})
    changed = {key for (key,) in found}
    return [key for key, is_quiet in batch.keys.items() if not (is_quiet and key in changed)]


def records_of(names: Sequence[str]) -> Steps[dict[str, Record]]:
    """What is known of documents, by serial."""
    found = yield Statement(CHANGE["load"], {"serials": words(list(names))})
    return {
        serial: Record(
            seen=seen,
            is_matched=is_matched,
            job=job,
            job_state=None if state is None else State(state),
            since=instant_or_none(since),
            told=told,
        )
        for serial, seen, is_matched, job, since, told, state in found
    }


def _sights(shape: Shape, keys: Sequence[str]) -> Steps[list[Sight | None]]:
    sights: list[Sight | None] = [None] * len(keys)
    for place, is_there, matches, *texts in (yield Statement(shape.statement("sight"), shape.wanted(keys))):
        if is_there:
            watched = texts[: len(shape.watch)]
            seen = sight_of(shape.watch, watched)
            sights[place - 1] = Sight(matches=matches, seen=seen, values=shape.values(watched))
    return sights


def _end(world: World, plannings: Sequence[Planning]) -> Steps[None]:
    """What waits for a row that no longer calls for it."""
    for planning in plannings:
        record, ends = planning.record, planning.plan.ends
        if ends is None or record is None or record.job is None:
            continue
        row = yield from world.named(record.job)
        if row is not None and row.state is State.WAITING:
            is_gone = ends is State.SKIPPED
            reason = "its row was deleted" if is_gone else "its row no longer matches"
            yield from world.finish(row, "expire" if is_gone else "cancel", reason)


def _put(world: World, shape: Shape, plannings: Sequence[Planning]) -> Steps[dict[str, str]]:
    """The jobs by key. One that waited already is put off to where the newest change wants it."""
    wanted = [planning for planning in plannings if planning.plan.run is not None]
    requests = [_request(shape, planning) for planning in wanted]
    placed = yield from put(world, requests)
    for request, answer, planning in zip(requests, placed, wanted, strict=True):
        if answer.decision is Decision.KEPT and answer.id != request.id:
            yield from _postpone(world, answer.id, world.now + span(planning.plan.due_in))
    return {planning.key: answer.id for planning, answer in zip(wanted, placed, strict=True)}


def _request(shape: Shape, planning: Planning) -> Request:
    key = planning.key
    return request_for(shape.reaction, planning.plan, key=key, parts=shape.told(key), terms=shape.terms)


def _postpone(world: World, job_id: str, due: int) -> Steps[None]:
    row = yield from world.named(job_id)
    if row is not None and row.state is State.WAITING and (row.ready_at, row.due) != (due, due):
        row.ready_at = row.due = due
        yield from world.rearrange(row)


def _save(world: World, batch: Batch, plannings: Sequence[Planning], jobs: dict[str, str]) -> Steps[None]:
    written = [(one, _written(one, jobs.get(one.key))) for one in plannings]
    kept = [(one, record) for one, record in written if record is not None]
    if not kept:
        return
    yield Statement(
        CHANGE["save"],
        {
            "reaction": batch.number,
            "now": world.now,
            "serial": words([one.serial for one, _ in kept]),
            "key": words([one.key for one, _ in kept]),
            "is_matched": booleans(record.is_matched for _, record in kept),
            "is_there": booleans(one.sight is not None for one, _ in kept),
            "since": integers(stamp_or_none(record.since) for _, record in kept),
            "seen": words([record.seen for _, record in kept]),
            "job": words([record.job for _, record in kept]),
            "told": words([record.told for _, record in kept]),
        },
    )


def _written(planning: Planning, job: str | None) -> Record | None:
    record = planning.plan.record
    if record is None or (record == planning.record and planning.sight is not None and record.is_matched):
        return None
    return record if job is None else replace(record, job=job)
