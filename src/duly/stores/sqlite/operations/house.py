"""Leaving the file and filling it: the notice at the door, and jobs with all that is known of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from duly.job import HistoryLine, Keep
from duly.lifecycle import Settled
from duly.stores import house
from duly.stores.contract import Ask, Settlement, Turned
from duly.stores.drive import Statement, Steps
from duly.stores.house import ARRIVED, CARRIED, RECORDS, Belonging, Furniture, Notice, Obstacles, Stage
from duly.stores.sqlite.operations import switches
from duly.stores.sqlite.operations.batch import pack as packed
from duly.stores.sqlite.operations.claim import claim
from duly.stores.sqlite.operations.exchange import Undecided
from duly.stores.sqlite.operations.find import histories_of
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.settle import Ends, settle
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.haste import Haste
from duly.stores.tables.instants import (
    duration,
    duration_or_none,
    instant,
    instant_or_none,
    span,
    span_or_none,
    stamp,
    stamp_or_none,
)
from duly.stores.tables.requests import FORMAT
from duly.stores.tables.rows import job_of

SQL = statements("house")

T = TypeVar("T")

ROOMS: Final = ("tallies", "windows", "markers", "switches", "locks", "starts", "delivered", "pages")
"""What `furnish` fills; whatever a half-done move left there is dropped first."""


def entered(name: str, world: World, act: Callable[[World], Steps[T]], level: int | None) -> Steps[T]:
    """Perform an operation that writes, unless a notice or a newer schema keeps it out."""
    if level is None:
        world.notice = yield from notice()
    else:
        ((oldest_code, hanging, has_intake),) = yield Statement(SQL["door"], {"format": FORMAT})
        house.check_level(name, level, oldest_code)
        world.is_outdated = oldest_code > level
        world.has_intake = bool(has_intake)
        world.notice = None if hanging is None else _notice(*json.loads(hanging))
    house.check(name, world.notice)
    return (yield from act(world))


def reach(world: World, ask: Ask) -> Ask:
    """What may be lent now."""
    return house.allowed(ask, world.notice, is_outdated=world.is_outdated)


def heard(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[list[Settled]]:
    """Settle; where everything stands still only late verdicts can come, and they change nothing."""
    if not house.hears(world.notice):
        return [Settled.LOST] * len(settlements)
    return (yield from settle(world, worker, settlements))


def turn(world: World, settlements: Sequence[Settlement], ask: Ask, haste: Haste) -> Steps[Turned]:
    """Settle and lend, as far as the notice lets."""
    if not house.hears(world.notice):
        return Turned([Settled.LOST] * len(settlements), (yield from claim(world, ask)))
    ends = Ends(world, ask.worker, settlements)
    if not haste.is_advisable():
        yield from ends.settle()
    try:
        claimed = yield from claim(world, ask, ends)
    except Undecided:
        haste.was_in_vain()
        yield from ends.settle()
        claimed = yield from claim(world, ask)
    return Turned((yield from ends.settle()), claimed)


def notice() -> Steps[Notice | None]:
    """What hangs at the door."""
    found = yield Statement(SQL["notice"])
    return _notice(*found[0]) if found else None


def _notice(stage: str, move: str, other: str, cursor: int) -> Notice:
    return Notice(Stage(stage), move, other, cursor)


def arrived() -> Steps[str | None]:
    """The move that filled this file last."""
    found = yield Statement(SQL["note_of"], {"kind": RECORDS, "name": ARRIVED})
    return found[0][0] if found else None


# --- leaving ------------------------------------------------------------------------------------


def put_up(stage: Stage, move: str, other: str) -> Steps[Notice]:
    """Hang up a notice; one that hangs there already stays and is answered."""
    yield Statement(SQL["put_up"], {"stage": stage, "move": move, "other": other})
    found = yield from notice()
    assert found is not None
    return found


def shut(world: World, move: str) -> Steps[Obstacles]:
    """Nothing changes any more, if nothing runs and nothing waits to be placed."""
    yield from absorb(world)
    obstacles = Obstacles(*(yield Statement(SQL["obstacles"], {"format": FORMAT}))[0])
    if not any(obstacles):
        yield from advance(move, Stage.CLOSED, since=[Stage.SEALED])
    return obstacles


def advance(move: str, stage: Stage, *, since: Sequence[Stage]) -> Steps[bool]:
    """Change the notice of this very move; says whether it did."""
    return bool((yield Statement(SQL["advance"], {"move": move, "stage": stage, "since": packed(since)})))


def take_down(move: str, *, since: Sequence[Stage]) -> Steps[bool]:
    """Take the notice of this very move down; says whether it hung there."""
    return bool((yield Statement(SQL["take_down"], {"move": move, "since": packed(since)})))


def pack(world: World, after: int, limit: int) -> Steps[list[Belonging]]:
    """The next jobs in the order of their generations, each with its whole history."""
    found = yield Statement(SQL["pack"], {"after": after, "limit": limit})
    rows = yield from world.rows(generation for (generation,) in found)
    histories = yield from histories_of(rows)
    return [_belonging(row, world, histories[row.entered]) for row in rows]


def _belonging(row: Row, world: World, history: Sequence[HistoryLine]) -> Belonging:
    return Belonging(
        job=job_of(row, world.moment.instant, history),
        entered=row.entered,
        overlap=row.overlap,
        per_key=row.per_key,
        keep=Keep(duration(row.keep_done), duration(row.keep_failed)),
        perpetual=row.perpetual,
        expires_after=duration_or_none(row.expires_after),
        first_failure=instant_or_none(row.first_failure),
        result_until=instant_or_none(row.result_until),
    )


def furniture(world: World) -> Steps[Furniture]:
    """Everything that is not a job."""
    ((last,),) = yield Statement(SQL["last_number"])
    windows = yield Statement(SQL["windows"])
    markers = yield Statement(SQL["markers"])
    locks = yield Statement(SQL["locks"], world.moment.lease())
    starts = yield Statement(SQL["starts"])
    notes = yield Statement(SQL["notes"], {"kind": RECORDS})
    delivered = yield Statement(SQL["delivered"], {"now": world.now})
    pages = yield Statement(SQL["pages"], {"carried": CARRIED})
    return Furniture(
        last_number=last,
        tallies=dict((yield Statement(SQL["tallies"]))),
        windows=[house.Window(serial, instant(until), job_id) for serial, until, job_id in windows],
        markers=[house.Marker(serial, instant(at)) for serial, at in markers],
        switches=(yield from switches.switches(world)),
        locks=[house.HeldLock(name, owner, token, duration(left)) for name, owner, token, left in locks],
        notes=[house.Note(*note) for note in notes],
        starts=[house.Start(task, instant(at)) for task, at in starts],
        delivered=[house.Delivered(job_id, instant(until)) for job_id, until in delivered],
        pages=[
            house.Leaf(number, kind, instant(at), instant(until), text)
            for number, kind, at, until, text in pages
        ],
    )


# --- arriving -----------------------------------------------------------------------------------


def receive(move: str, other: str) -> Steps[Notice | None]:
    """From now on only this move writes here; None if somebody lives here already."""
    hanging = yield from notice()
    if hanging is not None:
        return hanging
    ((is_lived_in,),) = yield Statement(SQL["is_lived_in"])
    return None if is_lived_in else (yield from put_up(Stage.ARRIVING, move, other))


def unpack(move: str, after: int, belongings: Sequence[Belonging]) -> Steps[int | None]:
    """Store the jobs after a generation, once; answers up to which jobs are here now."""
    hanging = yield from notice()
    if hanging is None or hanging.move != move or hanging.stage is not Stage.ARRIVING:
        return None
    if hanging.cursor != after or not belongings:
        return hanging.cursor
    for belonging in belongings:
        yield Statement(SQL["insert_job"], _columns(belonging))
        for line in belonging.job.history:
            yield Statement(SQL["insert_line"], _line(belonging.entered, line))
    cursor = belongings[-1].job.generation
    yield Statement(SQL["move_cursor"], {"move": move, "after": after, "cursor": cursor})
    return cursor


def _columns(belonging: Belonging) -> dict[str, Any]:
    job = belonging.job
    plain = {
        field.name: getattr(job, field.name) for field in dataclasses.fields(job) if field.name != "history"
    }
    due = stamp(job.due)
    return plain | {
        "entered": belonging.entered,
        "rank": -job.priority,
        "ready_at": due if job.ready_at is None else stamp(job.ready_at),
        "due": due,
        "created_at": stamp(job.created_at),
        "finished_at": stamp_or_none(job.finished_at),
        "forget_at": stamp_or_none(belonging.forget_at),
        "expires_at": stamp_or_none(job.expires_at),
        "expires_after": span_or_none(belonging.expires_after),
        "tick": stamp_or_none(job.tick),
        "first_failure": stamp_or_none(belonging.first_failure),
        "result_until": stamp_or_none(belonging.result_until),
        "overlap": belonging.overlap,
        "per_key": belonging.per_key,
        "perpetual": belonging.perpetual,
        "keep_done": span(belonging.keep.done),
        "keep_failed": span(belonging.keep.failed),
        "failed_at": stamp_or_none(job.failed_at),
        "error_folded": None if job.error is None else job.error.lower(),
    }


def _line(entered: int, line: HistoryLine) -> dict[str, Any]:
    plain = {field.name: getattr(line, field.name) for field in dataclasses.fields(line)}
    return plain | {"job": entered, "at": stamp(line.at), "started_at": stamp_or_none(line.started_at)}


def furnish(world: World, move: str, brought: Furniture) -> Steps[bool]:
    """Put everything in its place, however often it is said."""
    hanging = yield from notice()
    if hanging is None or hanging.move != move or hanging.stage is not Stage.ARRIVING:
        return False
    for room in ROOMS:
        yield Statement(SQL[f"drop_{room}"])
    yield Statement(SQL["count_on"], {"last": brought.last_number})
    for text, values in _pieces(world, brought):
        yield Statement(SQL[text], values)
    return True


def _pieces(world: World, brought: Furniture) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, amount in brought.tallies.items():
        yield "insert_tally", {"name": name, "amount": amount}
    for window in brought.windows:
        yield "insert_window", window._asdict() | {"until": stamp(window.until)}
    for marker in brought.markers:
        yield "insert_marker", marker._asdict() | {"at": stamp(marker.at)}
    for switch in brought.switches:
        about = {"scope": switch.scope, "name": switch.name, "reason": switch.reason}
        yield "insert_switch", about | {"until": stamp_or_none(switch.until)}
    for held in brought.locks:
        until = {"until": world.moment.boot + span(held.left), "boot_id": world.moment.boot_id}
        yield "insert_lock", {"name": held.name, "owner": held.owner, "token": held.token} | until
    for note in brought.notes:
        yield "insert_note", note._asdict()
    for start in brought.starts:
        yield "insert_start", start._asdict() | {"at": stamp(start.at)}
    for one in brought.delivered:
        yield "insert_delivered", one._asdict() | {"until": stamp(one.until)}
    for page in brought.pages:
        yield "insert_page", page._asdict() | {"at": stamp(page.at), "until": stamp(page.until)}


def settle_in(move: str) -> Steps[bool]:
    """Everything is here: from now on this is a home like any other, and remembers how it was filled."""
    has_ended = yield from take_down(move, since=[Stage.ARRIVING])
    if has_ended:
        yield Statement(SQL["insert_note"], {"kind": RECORDS, "name": ARRIVED, "text": move})
    return has_ended


def clear_out(move: str) -> Steps[bool]:
    """Throw out what has arrived of a move that was undone, or what a move has carried away from here."""
    is_ours = yield from take_down(move, since=[Stage.ARRIVING, Stage.GONE])
    if is_ours:
        for room in (*ROOMS, "notes", "jobs", "history"):
            yield Statement(SQL[f"drop_{room}"])
    return is_ours
