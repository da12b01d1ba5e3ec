"""Filling the schema with everything another store held: many rows in few statements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from duly.job import HistoryLine, serial_of
from duly.stores.drive import Statement, Steps
from duly.stores.house import ARRIVED, RECORDS, Belonging, Furniture, Notice, Stage
from duly.stores.postgres.operations import house
from duly.stores.postgres.operations.arrays import integers, stored, stored_or_none, words
from duly.stores.postgres.operations.house import SQL
from duly.stores.postgres.operations.lanes import Book, Track
from duly.stores.postgres.operations.world import World, digest
from duly.stores.tables.instants import span, span_or_none, stamp, stamp_or_none

TABLES: Final = ("insert_jobs", "insert_waiting", "insert_ended", "insert_words")
ROOMS: Final = ("tallies", "windows", "markers", "switches", "locks", "starts", "delivered", "pages")
"""What `furnish` fills; whatever a half-done move left there is dropped first."""


def receive(move: str, other: str) -> Steps[Notice | None]:
    """From now on only this move writes here; None if somebody lives here already."""
    yield Statement(SQL["lock"])
    hanging = yield from house.notice()
    if hanging is not None:
        return hanging
    ((is_lived_in,),) = yield Statement(SQL["is_lived_in"])
    return None if is_lived_in else (yield from house.put_up(Stage.ARRIVING, move, other))


def is_expected(notice: Notice | None, move: str) -> bool:
    """Whether this very move is filling the schema."""
    return notice is not None and (notice.move, notice.stage) == (move, Stage.ARRIVING)


def unpack(world: World, move: str, after: int, belongings: Sequence[Belonging]) -> Steps[int | None]:
    """Store the jobs after a generation, once; answers up to which jobs are here now."""
    yield Statement(SQL["lock"])  # of two movers one sees how far the other came
    hanging = yield from house.notice()
    if hanging is None or not is_expected(hanging, move):
        return None
    if hanging.cursor != after or not belongings:
        return hanging.cursor
    world.book.prepare(belonging.job for belonging in belongings)
    workers = sorted({belonging.job.worker for belonging in belongings} - {""})
    yield Statement(SQL["insert_workers"], {"ids": words(workers), "now": world.now})
    rows = json.dumps([_columns(belonging, world.book) for belonging in belongings], ensure_ascii=False)
    for table in TABLES:
        yield Statement(SQL[table], {"rows": rows})
    lines = [_line(belonging.entered, line) for belonging in belongings for line in belonging.job.history]
    yield Statement(SQL["insert_lines"], {"rows": json.dumps(lines, ensure_ascii=False)})
    cursor = belongings[-1].job.generation
    yield Statement(SQL["move_cursor"], {"move": move, "after": after, "cursor": cursor})
    return cursor


def _columns(belonging: Belonging, book: Book) -> dict[str, Any]:
    job, due = belonging.job, stamp(belonging.job.due)
    is_chained = job.serial != serial_of(job.task, job.key)
    return {
        "generation": job.generation,
        "entered": belonging.entered,
        "ready_at": due if job.ready_at is None else stamp(job.ready_at),
        "due": due,
        "created_at": stamp(job.created_at),
        "keep_done": span(belonging.keep.done),
        "keep_failed": span(belonging.keep.failed),
        "expires_at": stamp_or_none(job.expires_at),
        "expires_after": span_or_none(belonging.expires_after),
        "tick": stamp_or_none(job.tick),
        "first_failure": stamp_or_none(belonging.first_failure),
        "lane": book.number(Track(job.queue, job.task, job.priority)),
        "epoch": job.epoch,
        "attempt": job.attempt,
        "crashes": job.crashes,
        "deferrals": job.deferrals,
        "cycle": job.cycle,
        "per_key": belonging.per_key,
        "perpetual": belonging.perpetual,
        "is_suspect": job.is_suspect,
        "serial": None if job.serial is None else digest(job.serial),
        "overlap": belonging.overlap,
        "delivery": job.delivery,
        "id": job.id,
        "key": stored_or_none(job.key),
        "chain": stored_or_none(job.serial if is_chained else None),
        "context": stored(job.context),
        "arguments": stored(job.arguments),
        "error": stored_or_none(job.error),
        "fingerprint": job.fingerprint,
        "failed_at": stamp_or_none(job.failed_at),
    } | _standing(belonging)


def _standing(belonging: Belonging) -> dict[str, Any]:
    job = belonging.job
    return {
        "state": job.state,
        "is_parked": job.is_parked,
        "worker": job.worker,
        "finished_at": stamp_or_none(job.finished_at),
        "forget_at": stamp_or_none(belonging.forget_at),
        "result_until": stamp_or_none(belonging.result_until),
        "reason": stored(job.reason),
        "result": stored_or_none(job.result),
        "superseded_by": job.superseded_by,
        "wish": job.wish,
        "progress": stored_or_none(job.progress),
    }


def _line(entered: int, line: HistoryLine) -> dict[str, Any]:
    return {
        "entered": entered,
        "at": stamp(line.at),
        "event": line.event,
        "epoch": line.epoch,
        "generation": line.generation,
        "attempt": line.attempt,
        "worker": line.worker,
        "started_at": stamp_or_none(line.started_at),
        "note": stored(line.note),
    }


def furnish(world: World, move: str, brought: Furniture) -> Steps[bool]:
    """Put everything in its place, however often it is said."""
    yield Statement(SQL["lock"])
    if not is_expected((yield from house.notice()), move):
        return False
    for room in ROOMS:
        yield Statement(SQL[f"drop_{room}"])
    if brought.last_number:
        yield Statement(SQL["count_on"], {"last": brought.last_number})
    for text, values in _pieces(world, brought):
        yield Statement(SQL[text], values)
    return True


def _pieces(world: World, brought: Furniture) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, amount in brought.tallies.items():
        yield "insert_tally", {"name": name, "amount": amount}
    for window in brought.windows:
        until = {"until": stamp(window.until), "id": window.id}
        yield "insert_window", _named(window.serial) | until
    for marker in brought.markers:
        yield "insert_marker", _named(marker.serial) | {"at": stamp(marker.at)}
    for switch in brought.switches:
        about = {"scope": switch.scope, "name": stored(switch.name), "reason": stored(switch.reason)}
        yield "insert_switch", about | {"until": stamp_or_none(switch.until)}
    for held in brought.locks:
        until = {"until": world.moment.boot + span(held.left), "token": held.token}
        yield "insert_lock", {"name": stored(held.name), "owner": stored(held.owner)} | until
    for note in brought.notes:
        yield "insert_note", {"kind": note.kind, "name": stored(note.name), "text": stored(note.text)}
    for start in brought.starts:
        yield "insert_start", {"task": stored(start.task), "at": stamp(start.at)}
    ends = integers(stamp(one.until) for one in brought.delivered)
    yield "insert_delivered", {"ids": words([one.id for one in brought.delivered]), "until": ends}
    yield (
        "insert_pages",
        {
            "numbers": integers(page.number for page in brought.pages),
            "kinds": words([page.kind for page in brought.pages]),
            "at": integers(stamp(page.at) for page in brought.pages),
            "until": integers(stamp(page.until) for page in brought.pages),
            "texts": words([stored(page.text) for page in brought.pages]),
        },
    )


def _named(serial: str) -> dict[str, str]:
    return {"serial": digest(serial), "name": stored(serial)}


def settle_in(move: str) -> Steps[bool]:
    """Everything is here: from now on this is a home like any other, and remembers how it was filled."""
    has_ended = yield from house.take_down(move, since=[Stage.ARRIVING])
    if has_ended:
        yield Statement(SQL["insert_note"], {"kind": RECORDS, "name": ARRIVED, "text": move})
    return has_ended


def clear_out(move: str) -> Steps[bool]:
    """Throw out what has arrived of a move that was undone, or what a move has carried away from here."""
    is_ours = yield from house.take_down(move, since=[Stage.ARRIVING, Stage.GONE])
    if is_ours:
        for room in (*ROOMS, "notes", "jobs"):
            yield Statement(SQL[f"drop_{room}"])
    return is_ours
