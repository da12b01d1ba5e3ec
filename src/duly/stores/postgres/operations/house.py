"""Leaving the schema: the notice at the door, and jobs with all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import HistoryLine, Keep
from duly.stores import house
from duly.stores.drive import Statement, Steps
from duly.stores.house import ARRIVED, CARRIED, RECORDS, Belonging, Furniture, Notice, Obstacles, Stage
from duly.stores.postgres.operations import switches
from duly.stores.postgres.operations.arrays import restored, words
from duly.stores.postgres.operations.find import histories_of
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import duration, instant, instant_or_none
from duly.stores.tables.requests import FORMAT
from duly.stores.tables.rows import job_of

SQL = statements("house")


def notice() -> Steps[Notice | None]:
    """What hangs at the door."""
    found = yield Statement(SQL["notice"])
    return Notice(Stage(found[0][0]), *found[0][1:]) if found else None


def at_the_door(world: World) -> Steps[Notice | None]:
    """What hung there as the operation began: every one asks for that with its first words."""
    yield from ()
    return world.moment.notice


def arrived() -> Steps[str | None]:
    """The move that filled this schema last."""
    found = yield Statement(SQL["note_of"], {"kind": RECORDS, "name": ARRIVED})
    return found[0][0] if found else None


def put_up(stage: Stage, move: str, other: str) -> Steps[Notice]:
    """Hang up a notice; one that hangs there already stays and is answered."""
    yield Statement(SQL["lock"])
    yield Statement(SQL["put_up"], {"stage": stage, "move": move, "other": other})
    yield Statement(SQL["raise_seal"])
    found = yield from notice()
    assert found is not None
    return found


def shut(move: str) -> Steps[Obstacles]:
    """Nothing changes any more, if nothing runs and nothing waits to be placed."""
    yield Statement(SQL["lock"])
    obstacles = Obstacles(*(yield Statement(SQL["obstacles"], {"format": FORMAT}))[0])
    if not any(obstacles):
        yield from advance(move, Stage.CLOSED, since=[Stage.SEALED])
    return obstacles


def advance(move: str, stage: Stage, *, since: Sequence[Stage]) -> Steps[bool]:
    """Change the notice of this very move; says whether it did."""
    given = {"move": move, "stage": stage, "since": words(list(since))}
    return bool((yield Statement(SQL["advance"], given)))


def take_down(move: str, *, since: Sequence[Stage]) -> Steps[bool]:
    """Take the notice of this very move down; says whether it hung there."""
    yield Statement(SQL["lock"])
    hung = bool((yield Statement(SQL["take_down"], {"move": move, "since": words(list(since))})))
    yield Statement(SQL["raise_seal"])
    return hung


def pack(world: World, after: int, limit: int) -> Steps[list[Belonging]]:
    """The next jobs in the order of their generations, each with its whole history."""
    found = yield Statement(SQL["pack"], {"after": after, "limit": limit})
    rows = yield from world.rows(generation for (generation,) in found)
    histories = yield from histories_of(rows)
    return [_belonging(row, world, histories[row.entered]) for row in rows]


def _belonging(row: Row, world: World, history: Sequence[HistoryLine]) -> Belonging:
    return Belonging(
        job=job_of(row, row.lease_end(world.moment), history),
        entered=row.entered,
        overlap=row.overlap,
        per_key=row.per_key,
        keep=Keep(duration(row.keep_done), duration(row.keep_failed)),
        perpetual=row.perpetual,
        expires_after=None if row.expires_after is None else duration(row.expires_after),
        first_failure=instant_or_none(row.first_failure),
        result_until=instant_or_none(row.result_until),
    )


def furniture(world: World) -> Steps[Furniture]:
    """Everything that is not a job."""
    ((last,),) = yield Statement(SQL["last_number"])
    windows = yield Statement(SQL["windows"])
    markers = yield Statement(SQL["markers"])
    locks = yield Statement(SQL["locks"], {"boot": world.moment.boot})
    starts = yield Statement(SQL["starts"])
    notes = yield Statement(SQL["notes"], {"kind": RECORDS})
    delivered = yield Statement(SQL["delivered"], {"now": world.now})
    pages = yield Statement(SQL["pages"], {"carried": CARRIED})
    return Furniture(
        last_number=last,
        tallies=dict((yield Statement(SQL["tallies"]))),
        windows=[house.Window(restored(name), instant(until), job_id) for name, until, job_id in windows],
        markers=[house.Marker(restored(name), instant(at)) for name, at in markers],
        switches=(yield from switches.switches(world)),
        locks=[
            house.HeldLock(restored(name), restored(owner), token, duration(left))
            for name, owner, token, left in locks
        ],
        notes=[house.Note(kind, restored(name), restored(text)) for kind, name, text in notes],
        starts=[house.Start(restored(task), instant(at)) for task, at in starts],
        delivered=[house.Delivered(job_id, instant(until)) for job_id, until in delivered],
        pages=[
            house.Leaf(number, kind, instant(at), instant(until), restored(text))
            for number, kind, at, until, text in pages
        ],
    )
