"""The moves that every operation shares, one job at a time.

This is the careful path: a job is gathered from its tables, decided on in Python by the same pure functions
as in every other store, and put where it now belongs. Its serial is locked meanwhile, or, where it has none,
the row that says where it stands. The operations have statements of their own for the many jobs that need
no such care.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from duly.job import Overlap, State, Wish
from duly.lifecycle import HISTORY_LINES, move
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers, restored_or_none, stored, stored_or_none
from duly.stores.postgres.operations.lanes import Book
from duly.stores.postgres.operations.moment import Moment
from duly.stores.postgres.operations.rows import Peer, Row
from duly.stores.postgres.operations.texts import statements
from duly.stores.tables.instants import stamp, stamp_or_none

SQL = statements("row")
CHANGE = statements("change")


@dataclass(frozen=True, slots=True)
class World:
    """The store at one moment."""

    moment: Moment
    book: Book
    is_wary: bool = False
    """Somebody held a row for long at the last try: now nothing is waited for."""

    @property
    def now(self) -> int:
        return self.moment.now

    # reading

    def named(self, job_id: str) -> Steps[Row | None]:
        """The job of that id."""
        found = yield Statement(SQL["named"], {"id": job_id})
        rows = yield from self.rows(generation for (generation,) in found)
        return rows[0] if rows else None

    def row(self, generation: int) -> Steps[Row]:
        """A job that is known to be there."""
        (row,) = yield from self.rows([generation])
        return row

    def rows(self, generations: Iterable[int]) -> Steps[list[Row]]:
        """In the order asked for; what vanished meanwhile is left out."""
        wanted = list(generations)
        if not wanted:
            return []
        yield from self.book.update(self.moment)
        found = yield Statement(SQL["load"], {"generations": integers(wanted)})
        known = {values[0]: Row.gather(values, self.book) for values in found}
        return [known[generation] for generation in wanted if generation in known]

    def peers(self, serial: str | None) -> Steps[list[Peer]]:
        """Live jobs of one serial, oldest request first."""
        if serial is None:
            return []
        found = yield Statement(SQL["peers"], {"serial": serial})
        return [Peer(*values)._replace(key=restored_or_none(values[2])) for values in found]

    # writing

    def draw(self) -> Steps[int]:
        """The store-wide rising counter: generations and the tokens of locks."""
        ((number,),) = yield Statement(SQL["draw"])
        return int(number)

    def tally(self, name: str, amount: int = 1) -> Steps[None]:
        yield Statement(SQL["tally"], {"name": name, "amount": amount})

    def tell(self, row: Row) -> Steps[None]:
        """Leave word for the run, which nothing but claim and settle may touch."""
        words = {"superseded_by": row.superseded_by, "wish": row.wish}
        yield Statement(SQL["tell"], {"generation": row.generation, "epoch": row.epoch} | words)
        if row.serial is not None:
            yield Statement(SQL["disturb"], {"serial": row.serial})

    def note(self, row: Row, event: str, note: str = "", *, started_at: int | None = None) -> Steps[None]:
        """A line of history."""
        yield from self.write_out(row)
        written = {"at": self.now, "event": event, "note": stored(note), "started_at": started_at}
        yield self._line(row, written)

    def write_out(self, row: Row) -> Steps[None]:
        """Where the end of a job stood for the last line of its history, write a line like others."""
        line = row.line
        if line is not None:
            written = {"at": stamp(line.at), "event": line.event, "note": stored(line.note)}
            yield self._line(row, written | {"started_at": stamp_or_none(line.started_at)})
            yield Statement(SQL["write_out"], {"generation": row.generation})
            row.event = None

    reopen = write_out

    def trim(self, row: Row) -> Steps[None]:
        """A job that starts another cycle keeps its newest lines."""
        yield Statement(SQL["trim"], {"entered": row.entered, "lines": HISTORY_LINES})

    def _line(self, row: Row, written: dict[str, Any]) -> Statement:
        about = {"entered": row.entered, "generation": row.generation, "worker": row.worker}
        return Statement(SQL["note"], about | {"epoch": row.epoch, "attempt": row.attempt} | written)

    def finish(self, row: Row, event: str, reason: str) -> Steps[None]:
        """A terminal move. Whoever waits parked behind this serial may now be promoted."""
        yield from self._leave(row)
        row.state = move(row.state, event)
        row.reason = reason
        row.finished_at = self.now
        row.forget_at = self.now + (row.keep_failed if row.state is State.FAILED else row.keep_done)
        row.is_parked = False
        yield Statement(SQL["enter_ended"], row.end())
        yield from self._save(row)
        yield from self._stand_down(row)
        if event in ("cancel", "stop"):
            yield from self._mark(row)
        yield from self.promote(row.serial)

    def _leave(self, row: Row) -> Steps[None]:
        if row.state is State.RUNNING:
            yield Statement(SQL["leave_running"], {"generation": row.generation})
            yield Statement(SQL["untell"], {"generation": row.generation})
        else:
            yield Statement(SQL["leave_parked" if row.is_parked else "leave_ready"], row.place())

    def _enter(self, row: Row) -> Steps[None]:
        yield Statement(SQL["enter_parked" if row.is_parked else "enter_ready"], row.place())
        if row.expires_at is not None:
            yield Statement(SQL["expire_at"], row.place() | {"expires_at": row.expires_at})

    def _save(self, row: Row) -> Steps[None]:
        wide = row.wide()
        if wide != row.loaded:
            yield Statement(SQL["save"], wide)
            row.loaded = wide

    def _stand_down(self, row: Row) -> Steps[None]:
        if row.serial is not None:
            yield Statement(SQL["stand_down"], {"serial": row.serial, "generation": row.generation})

    def _mark(self, row: Row) -> Steps[None]:
        """A perpetual that was stopped stays stopped, unless it is deleted or a newer request stands."""
        if not row.perpetual or row.serial is None or row.wish is Wish.DELETE:
            return
        if not (yield from self.peers(row.serial)):
            name = stored_or_none(row.serial_name)
            yield Statement(SQL["mark"], {"serial": row.serial, "at": self.now, "name": name})

    def unmark(self, serial: str | None) -> Steps[None]:
        if serial is not None:
            yield Statement(SQL["unmark"], {"serial": serial})

    def wait_again(self, row: Row, event: str, ready_at: int) -> Steps[None]:
        """A run that did not end its job. The next loan has a secret of its own: the old claim is refused."""
        yield from self._leave(row)
        row.state = move(row.state, event)
        yield from self._go_back(row, ready_at)
        if row.progress is not None:
            yield Statement(SQL["unsay"], {"generation": row.generation})
        yield from self.promote(row.serial)

    def take_back(self, row: Row) -> Steps[None]:
        """From a worker that is gone: to the ready set, still ahead of what is parked behind it."""
        yield Statement(SQL["leave_running"], {"generation": row.generation})
        row.state = State.WAITING
        yield from self._go_back(row, self.now)

    def _go_back(self, row: Row, ready_at: int) -> Steps[None]:
        row.ready_at = ready_at
        row.worker, row.worker_number = "", None
        row.is_parked = False
        # Always: what was gathered from the loan is not yet in the wide row.
        yield Statement(SQL["save"], row.wide())
        yield from self._enter(row)

    def rearrange(self, row: Row) -> Steps[None]:
        """A waiting job changed: the row that says where it waits follows."""
        before = row.place() | {name: row.loaded[name] for name in ("lane", "ready_at")}
        if before != row.place() or row.loaded["expires_at"] != row.expires_at:
            yield Statement(SQL["leave_parked" if row.is_parked else "leave_ready"], before)
            if row.loaded["expires_at"] is not None:
                yield Statement(SQL["expire_never"], before | {"expires_at": row.loaded["expires_at"]})
            yield from self._enter(row)
        yield from self._save(row)

    def revive(self, row: Row) -> Steps[None]:
        """An ended job, changed to be waiting, gets a new generation and stands again."""
        following = yield from self.draw()
        numbers = {"generation": row.generation, "next": following}
        yield Statement(SQL["leave_ended"], numbers)
        yield Statement(SQL["renumber"], numbers)
        yield Statement(SQL["renumber_remark"], numbers)
        row.generation = following
        yield Statement(SQL["save"], row.wide())
        yield from self._enter(row)
        if row.serial is not None:
            yield Statement(SQL["stand"], {"serial": row.serial, "generation": following})

    def remove(self, row: Row) -> Steps[None]:
        """Nothing of the job remains."""
        named = {"generation": row.generation}
        if row.serial is not None and row.state is not State.DONE:
            yield Statement(CHANGE["undo"], {"serial": row.serial, "job": row.id})
        if row.state is State.WAITING:
            yield from self._leave(row)
        else:
            yield Statement(SQL["leave_ended"], named)
        yield from self._stand_down(row)
        yield Statement(SQL["remove_job"], named)
        yield Statement(SQL["unremark"], named)
        yield Statement(SQL["untell"], named)
        yield Statement(SQL["remove_history"], {"entered": row.entered})
        if row.expires_at is not None:
            yield Statement(SQL["expire_never"], row.place() | {"expires_at": row.expires_at})

    def promote(self, serial: str | None) -> Steps[None]:
        """Something of this serial ended: the oldest parked request becomes ready if it may run now."""
        if self.moment.is_guest and serial is not None:
            yield Statement(SQL["free"], {"serial": serial})
            return
        peers = yield from self.peers(serial)
        ready = first_to_promote(peers)
        if ready is not None:
            yield Statement(SQL["leave_parked"], ready.place())
            yield Statement(SQL["enter_ready"], ready.place())


def first_to_promote(peers: list[Peer]) -> Peer | None:
    """The parked job that may leave its place now, if any."""
    waiting = [peer for peer in peers if not peer.is_running]
    parked = [peer for peer in waiting if peer.is_parked]
    if not parked or len(peers) - len(waiting) >= max(parked[0].per_key, 1):
        return None
    goes_one_by_one = parked[0].overlap == Overlap.QUEUE_ALL and parked[0].per_key == 1
    is_second = goes_one_by_one and len(parked) < len(waiting)
    return None if is_second else parked[0]


def digest(serial: str) -> str:
    """A serial of any length as a name of fixed length, spelled as PostgreSQL spells a uuid."""
    name = hashlib.sha256(serial.encode()).hexdigest()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:32]}"
