"""The moves that every operation shares, one job at a time.

This is the careful path: a row is read whole, decided on in Python by the same pure functions as in
every other store, and written back, all under the write lock. The operations have set-based
statements of their own for the many jobs that need no such care.
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.clash import Stander
from duly.job import Overlap, State, Wish
from duly.lifecycle import HISTORY_LINES, move
from duly.stores.drive import Statement, Steps
from duly.stores.house import Notice
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.moment import Moment
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.texts import statements

SQL = statements("row")
DOCUMENT = statements("document")


class World:
    """The store at one moment."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.now = moment.now
        self.notice: Notice | None = None
        """What hangs at the door while everything is being moved."""
        self.is_outdated = False
        """The schema was migrated for newer code than this."""
        self.has_intake = True
        """Requests may wait to be placed: false where somebody has looked in this transaction."""

    # reading

    def row(self, job_id: str) -> Steps[Row | None]:
        found = yield Statement(SQL["load"], {"id": job_id})
        return Row(*found[0]) if found else None

    def rows(self, generations: Iterable[int]) -> Steps[list[Row]]:
        """In the order asked for; what vanished meanwhile is left out."""
        wanted = list(generations)
        found = yield Statement(SQL["load_many"], {"generations": pack(wanted)})
        known = {values[0]: Row(*values) for values in found}
        return [known[generation] for generation in wanted if generation in known]

    def waiting(self, serial: str) -> Steps[list[Stander]]:
        """What waits for a serial, oldest request first."""
        found = yield Statement(SQL["waiting"], {"serial": serial})
        return [Stander(*values) for values in found]

    def running(self, serial: str) -> Steps[list[Stander]]:
        """What runs for a serial, oldest request first."""
        found = yield Statement(SQL["running"], {"serial": serial})
        return [Stander(*values) for values in found]

    # writing

    def draw(self, amount: int = 1) -> Steps[int]:
        """Advance the store-wide rising counter; answers the last number drawn."""
        found = yield Statement(SQL["draw"], {"amount": amount})
        return int(found[0][0])

    def tally(self, name: str, amount: int = 1) -> Steps[None]:
        yield Statement(SQL["tally"], {"name": name, "amount": amount})

    def save(self, row: Row) -> Steps[None]:
        """One wide table: whatever changed, the row is written."""
        yield Statement(SQL["save"], row.parameters())

    tell = rearrange = revive = save

    def remove(self, row: Row) -> Steps[None]:
        if row.key is not None and row.state is not State.DONE:
            yield Statement(DOCUMENT["undo"], {"task": row.task, "key": row.key, "job": row.id})
        yield Statement(SQL["remove"], {"generation": row.generation})
        yield Statement(SQL["remove_history"], {"entered": row.entered})

    def reopen(self, row: Row) -> Steps[None]:
        """An ended job is about to change: it gets a new generation."""
        yield from self._write_down(row)
        following = yield from self.draw()
        yield Statement(SQL["renumber"], {"generation": row.generation, "next": following})
        row.generation = following

    def note(self, row: Row, event: str, note: str = "", *, started_at: int | None = None) -> Steps[None]:
        yield from self._write_down(row)
        yield Statement(
            SQL["note"],
            {
                "job": row.entered,
                "at": self.now,
                "event": event,
                "epoch": row.epoch,
                "generation": row.generation,
                "attempt": row.attempt,
                "worker": row.worker,
                "started_at": started_at,
                "note": note,
            },
        )

    def _write_down(self, row: Row) -> Steps[None]:
        """A last line that the row itself tells gets one in the history, where others can follow it."""
        if row.event is not None:
            row.event = row.started_at = None
            yield Statement(SQL["write_down"], {"generation": row.generation})
            yield Statement(SQL["told"], {"generation": row.generation})

    def finish(self, row: Row, event: str, reason: str) -> Steps[None]:
        """A terminal move. Whoever waits parked behind this serial may now be promoted."""
        row.state = move(row.state, event)
        row.reason = reason
        row.finished_at = self.now
        row.forget_at = self.now + (row.keep_failed if row.state is State.FAILED else row.keep_done)
        row.is_parked = False
        yield from self.save(row)
        if event in ("cancel", "stop"):
            yield from self._mark(row)
        yield from self.promote(row.serial)

    def _mark(self, row: Row) -> Steps[None]:
        """A perpetual that was stopped stays stopped, unless it is deleted or a newer request stands."""
        if not row.perpetual or row.serial is None or row.wish is Wish.DELETE:
            return
        if not (yield Statement(SQL["is_live"], {"serial": row.serial})):
            yield Statement(SQL["mark"], {"serial": row.serial, "at": self.now})

    def unmark(self, serial: str | None) -> Steps[None]:
        if serial is not None:
            yield Statement(SQL["unmark"], {"serial": serial})

    def wait_again(self, row: Row, event: str, ready_at: int) -> Steps[None]:
        row.state = move(row.state, event)
        row.ready_at = ready_at
        row.worker = ""
        row.forget_claim()  # whatever it still writes is refused from here on
        row.has_begun = row.began_isolated = False
        row.progress = None
        yield from self.save(row)
        yield from self.promote(row.serial)

    def take_back(self, row: Row) -> Steps[None]:
        """From a worker that is gone: to the ready set, still ahead of what is parked behind it."""
        row.state = State.WAITING
        row.ready_at = self.now
        row.worker = ""
        row.has_begun = row.began_isolated = False
        yield from self.save(row)

    def trim(self, row: Row) -> Steps[None]:
        """A job that starts another cycle keeps its newest lines."""
        yield Statement(SQL["trim"], {"entered": row.entered, "lines": HISTORY_LINES})

    def promote(self, serial: str | None) -> Steps[None]:
        """Something of this serial ended: the oldest parked request becomes ready if it may run now."""
        if serial is None:
            return
        for parked in (yield Statement(SQL["parked"], {"serial": serial})):
            if may_leave(*parked[1:]):
                yield Statement(SQL["unpark"], {"generation": parked[0]})


def may_leave(per_key: int, overlap: str, has_waiting: int, running: int) -> bool:
    """Whether the oldest parked request of a serial may leave its place."""
    if running >= max(per_key, 1):
        return False
    # One after the other, also while the one in front waits to be tried again.
    return not (has_waiting and overlap == Overlap.QUEUE_ALL and per_key == 1)
