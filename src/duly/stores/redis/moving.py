"""The operations with what it takes to move house; none of it is kept out by the notice it is about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from duly.errors import StoreError
from duly.job import HistoryLine, Keep, Overlap
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.house import (
    ARRIVED,
    CARRIED,
    RECORDS,
    Belonging,
    Delivered,
    Furniture,
    HeldLock,
    Leaf,
    Marker,
    Note,
    Notice,
    Obstacles,
    Stage,
    Start,
    Window,
    check,
)
from duly.stores.redis.moment import (
    instant,
    instant_or_none,
    span,
    span_or_false,
    stamp,
    stamp_or_false,
)
from duly.stores.redis.operations import Operations, reading
from duly.stores.redis.packing import body_text, packed, read_job

PORTION: Final = 1000
"""Deliveries per script."""
TOLD: Final = "DULYHOUSE "
"""How a script begins the error by which a notice keeps an operation out."""


def refusal(told: str, doing: str) -> StoreError | None:
    """What a notice says to an operation, from the words of a script."""
    _, is_one, text = told.partition(TOLD)
    if not is_one:
        return None
    [notice], _ = json.JSONDecoder().raw_decode(text)
    try:
        check(doing, _notice(*notice))
    except StoreError as error:
        return error
    return None


def _notice(stage: str, move: str, other: str, cursor: int) -> Notice:
    return Notice(Stage(stage), move, other, cursor)


class Movable(Operations):
    """Everything a Redis store can do."""

    def notice(self) -> Operation[Notice | None]:
        def steps() -> Steps[Notice | None]:
            found = yield Statement("notice", {})
            return _notice(*found[0]) if found else None

        return reading("notice", steps)

    def arrived(self) -> Operation[str | None]:
        def steps() -> Steps[str | None]:
            found: dict[str, str] = dict((yield Statement("records", {"kind": RECORDS})))
            return found.get(ARRIVED)

        return reading("arrived", steps)

    # leaving

    def seal(self, move: str, other: str) -> Operation[Notice]:
        def steps() -> Steps[Notice]:
            [found] = yield Statement("seal", {"move": move, "other": other})
            return _notice(*found)

        return Operation("seal", steps)

    def shut(self, move: str) -> Operation[Obstacles]:
        def steps() -> Steps[Obstacles]:
            [found] = yield Statement("shut", {"move": move})
            return Obstacles(*found)

        return Operation("shut", steps)

    def pack(self, after: int, limit: int) -> Operation[list[Belonging]]:
        def steps() -> Steps[list[Belonging]]:
            jobs, beside = yield Statement("pack", {"after": after, "limit": limit})
            return [_belonging(job, more) for job, more in zip(jobs, beside, strict=True)]

        return reading("pack", steps)

    def furniture(self) -> Operation[Furniture]:
        return reading("furniture", lambda: _furniture(self))

    def depart(self, move: str) -> Operation[bool]:
        values = {"move": move, "stage": Stage.GONE, "since": [Stage.CLOSED]}
        return Operation("depart", lambda: _whether("advance", values))

    def reopen(self, move: str) -> Operation[bool]:
        values = {"move": move, "since": [Stage.SEALED, Stage.CLOSED], "record": False}
        return Operation("reopen", lambda: _whether("take_down", values))

    # arriving

    def receive(self, move: str, other: str) -> Operation[Notice | None]:
        def steps() -> Steps[Notice | None]:
            found = yield Statement("receive", {"move": move, "other": other})
            return _notice(*found[0]) if found else None

        return Operation("receive", steps)

    def unpack(self, move: str, after: int, belongings: Sequence[Belonging]) -> Operation[int | None]:
        def steps() -> Steps[int | None]:
            jobs = [_values(belonging) for belonging in belongings]
            found = yield Statement("unpack", packed({"move": move, "after": after, "jobs": jobs}))
            return found[0][0] if found else None

        return Operation("unpack", steps)

    def furnish(self, move: str, furniture: Furniture) -> Operation[bool]:
        def steps() -> Steps[bool]:
            is_done = yield from _whether("furnish", {"move": move} | _pieces(furniture))
            delivered = [(one.id, stamp(one.until)) for one in furniture.delivered]
            for first in range(0, len(delivered), PORTION):
                portion = delivered[first : first + PORTION]
                yield Statement("furnish", {"move": move, "deliveries": portion})
            pages = [
                (page.number, page.kind, stamp(page.at), stamp(page.until), page.text)
                for page in furniture.pages
            ]
            for first in range(0, len(pages), PORTION):
                yield Statement("furnish", packed({"move": move, "pages": pages[first : first + PORTION]}))
            return is_done

        return Operation("furnish", steps)

    def settle_in(self, move: str) -> Operation[bool]:
        values = {"move": move, "since": [Stage.ARRIVING], "record": RECORDS, "name": ARRIVED}
        return Operation("settle_in", lambda: _whether("take_down", values))

    def clear_out(self, move: str) -> Operation[bool]:
        def steps() -> Steps[bool]:
            cursor, is_ours = "0", False
            while found := (yield Statement("clear_out", {"move": move, "cursor": cursor})):
                cursor, is_ours = found[0][0], True
                if cursor == "0":
                    break
            return is_ours

        return Operation("clear_out", steps)


def _whether(script: str, values: dict[str, Any]) -> Steps[bool]:
    [[answer]] = yield Statement(script, values)
    return bool(answer)


# --- what leaves --------------------------------------------------------------------------------


def _belonging(job: Sequence[Any], beside: Sequence[Any]) -> Belonging:
    entered, overlap, per_key, done, failed, perpetual, after, first_failure, result_until = beside
    return Belonging(
        job=read_job(job),
        entered=entered,
        overlap=Overlap(overlap),
        per_key=per_key,
        keep=Keep(instant(done) - instant(0), instant(failed) - instant(0)),
        perpetual=perpetual,
        expires_after=None if after is None else instant(after) - instant(0),
        first_failure=instant_or_none(first_failure),
        result_until=instant_or_none(result_until),
    )


def _furniture(store: Movable) -> Steps[Furniture]:
    [last], tallies, windows, markers, locks, delivered = yield Statement("furniture", {})
    switches = yield from store.switches().steps()
    notes = yield from _notes()
    starts = yield from _starts()
    pages = yield from _pages()
    return Furniture(
        last_number=last,
        tallies=dict(tallies),
        windows=sorted(Window(serial, instant(until), job_id) for serial, until, job_id in windows),
        markers=sorted(Marker(serial, instant(at)) for serial, at in markers),
        switches=switches,
        locks=sorted(
            HeldLock(name, owner, token, instant(left) - instant(0)) for name, owner, token, left in locks
        ),
        notes=sorted(notes),
        starts=starts,
        pages=pages,
        delivered=sorted(Delivered(job_id, instant(until)) for job_id, until in delivered),
    )


def _names(word: str) -> Steps[list[str]]:
    """What follows a word in the names of keys; a walk may meet one twice."""
    found: set[str] = set()
    cursor = "0"
    while True:
        [cursor], names = yield Statement("scan", {"cursor": cursor, "word": word})
        found.update(names)
        if cursor == "0":
            return sorted(found)


def _notes() -> Steps[list[Note]]:
    notes: list[Note] = []
    for kind in (yield from _names("record:")):
        if kind != RECORDS:
            texts = yield Statement("records", {"kind": kind})
            notes += [Note(kind, name, text) for name, text in texts]
    return notes


def _pages() -> Steps[list[Leaf]]:
    pages: list[Leaf] = []
    for kind in (yield from _names("diary:")):
        values = {"kind": kind, "limit": CARRIED, "before": False, "since": False}
        found = yield Statement("diary", values)
        pages += [Leaf(number, kind, instant(at), instant(until), text) for number, at, text, until in found]
    return sorted(pages)


def _starts() -> Steps[list[Start]]:
    starts: list[Start] = []
    for task in (yield from _names("starts:")):
        starts += [Start(task, instant(at)) for (at,) in (yield Statement("starts", {"task": task}))]
    return starts


# --- what arrives -------------------------------------------------------------------------------


def _values(belonging: Belonging) -> list[Any]:
    """A job with all that is known of it, for `read` in unpack.lua."""
    job, keep = belonging.job, belonging.keep
    return [
        job.id,
        job.task,
        job.queue,
        job.priority,
        _or_false(job.key),
        _or_false(job.serial),
        job.generation,
        belonging.entered,
        job.state,
        job.is_parked,
        stamp(job.due if job.ready_at is None else job.ready_at),
        job.epoch,
        job.attempt,
        stamp_or_false(job.finished_at),
        span(keep.done),
        job.worker,
        job.reason,
        job.is_suspect,
        job.delivery,
        job.crashes,
        job.deferrals,
        job.cycle,
        stamp(job.due),
        stamp_or_false(belonging.first_failure),
        _or_false(job.superseded_by),
        job.wish or False,
        stamp(job.created_at),
        stamp_or_false(job.expires_at),
        span_or_false(belonging.expires_after),
        stamp_or_false(job.tick),
        span(keep.failed),
        belonging.perpetual,
        _or_false(job.error),
        _or_false(job.result),
        _or_false(job.progress),
        belonging.overlap,
        belonging.per_key,
        [_line(line) for line in job.history],
        body_text(job.arguments, job.context),
        stamp_or_false(belonging.result_until),
        _or_false(job.fingerprint),
        stamp_or_false(job.failed_at),
    ]


def _line(line: HistoryLine) -> str:
    """A line of history, as it lies in the store."""
    started_at = None if line.started_at is None else stamp(line.started_at)
    counted = (line.epoch, line.generation, line.attempt)
    return packed([stamp(line.at), line.event, *counted, line.worker, started_at, line.note]).decode()


def _or_false(text: str | None) -> str | bool:
    return False if text is None else text


def _pieces(brought: Furniture) -> dict[str, Any]:
    return {
        "last": brought.last_number,
        "tallies": list(brought.tallies.items()),
        "windows": [(one.serial, stamp(one.until), one.id) for one in brought.windows],
        "markers": [(one.serial, stamp(one.at)) for one in brought.markers],
        "switches": [
            (f"{one.scope}:{one.name}", stamp_or_false(one.until), one.reason) for one in brought.switches
        ],
        "locks": [(one.name, one.owner, one.token, span(one.left)) for one in brought.locks],
        "notes": list(brought.notes),
        "starts": [(one.task, stamp(one.at)) for one in brought.starts],
    }
