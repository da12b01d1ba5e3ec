"""Everything a SQLite store can be asked for: descriptions that perform no I/O.

Each is a generator over the statements of the file in `sql/` that bears its name. A driver runs it
inside one transaction, so everything in it happens at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from duly.bundle import at_hand
from duly.clock import Clock
from duly.job import Fence, Job, Request
from duly.lifecycle import Settled
from duly.stores.contract import (
    Amended,
    Amendment,
    Ask,
    Attendance,
    Census,
    Claimed,
    Grip,
    Page,
    Parcel,
    Placed,
    Renewal,
    Scope,
    Selection,
    Settlement,
    Standing,
    Switch,
    Turned,
    WorkerCard,
)
from duly.stores.drive import Operation, Steps
from duly.stores.reports import Entry, FailureGroup, Found, Search
from duly.stores.sqlite.operations import locks, records, switches, workers
from duly.stores.sqlite.operations.amend import amend
from duly.stores.sqlite.operations.claim import claim
from duly.stores.sqlite.operations.deliver import deliver
from duly.stores.sqlite.operations.diary import diary, jot
from duly.stores.sqlite.operations.exchange import PAUSE
from duly.stores.sqlite.operations.failures import failures
from duly.stores.sqlite.operations.find import census, explain, find
from duly.stores.sqlite.operations.finish import finish
from duly.stores.sqlite.operations.house import entered, heard, reach, turn
from duly.stores.sqlite.operations.intake import absorb, offer
from duly.stores.sqlite.operations.moment import Moment
from duly.stores.sqlite.operations.prune import prune
from duly.stores.sqlite.operations.put import put
from duly.stores.sqlite.operations.renew import begin, disown, renew, report
from duly.stores.sqlite.operations.search import search as find_text
from duly.stores.sqlite.operations.select import counted
from duly.stores.sqlite.operations.swift import Mould, alone, put_alone
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.haste import Haste
from duly.stores.tables.instants import stamp

T = TypeVar("T")


class Operations:
    """What a SQLite store can do. The clock is read once in each operation, when it runs."""

    def __init__(self, clock: Clock, boot_id: str) -> None:
        self._clock = clock
        self._boot_id = boot_id
        self._haste = Haste(first=PAUSE, longest=PAUSE)
        self._mould: Mould | None = None
        """Of the request that was put last."""
        self.level: int | None = None
        """The schema this code is made for; None where nobody keeps count."""

    # jobs

    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        def act(world: World) -> Steps[list[Placed]]:
            yield from absorb(world)
            return (yield from put(world, requests))

        if (request := alone(requests)) is not None:
            mould = self._mould
            if mould is None or mould.pattern is not request[0]:
                mould = self._mould = Mould(request[0])
            if mould.meets_nobody:
                return Operation("put", partial(self._put_alone, mould, *request[1:], act), is_light=True)
        requests = at_hand(requests)
        return self._writing("put", act)

    def _put_alone(
        self, mould: Mould, job_id: str, arguments: str, act: Callable[[World], Steps[list[Placed]]]
    ) -> Steps[list[Placed]]:
        values = mould.values(job_id, arguments, stamp(self._clock.now()), self.level)
        return put_alone(job_id, values, lambda: entered("put", self._world(), act, self.level))

    def offer(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self._writing("offer", lambda world: offer(world, requests))

    def deliver(self, outbox: str, parcels: Sequence[Parcel]) -> Operation[list[Placed]]:
        def act(world: World) -> Steps[list[Placed]]:
            yield from absorb(world)
            return (yield from deliver(world, outbox, parcels))

        return self._writing("deliver", act)

    def claim(self, ask: Ask) -> Operation[Claimed]:
        return self._writing("claim", lambda world: claim(world, reach(world, ask)))

    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        return self._writing("begin", lambda world: begin(world, fences, isolated=isolated, once=once))

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]:
        return self._writing("renew", lambda world: renew(world, card, fences, lease))

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Settled]]:
        return self._writing("settle", lambda world: heard(world, worker, settlements))

    def finish(self, settlement: Settlement) -> Operation[bool]:
        """Settle one run that is simply done, or change nothing: for the end of an exactly-once run."""
        return Operation("settle", lambda: finish(self._world(), settlement))

    def foresee(self, settlements: Sequence[Settlement]) -> None:
        """Nothing to do: a file does nothing by itself, so there is no time to use."""

    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]:
        def act(world: World) -> Steps[Turned]:
            return (yield from turn(world, settlements, reach(world, ask), self._haste))

        return self._writing("turn", act)

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]:
        return self._writing("disown", lambda world: disown(world, worker, held))

    def amend(
        self, selection: Selection, amendment: Amendment, *, by: str = "", limit: int = 1000
    ) -> Operation[list[Amended]]:
        return self._writing("amend", lambda world: amend(world, selection, amendment, by=by, limit=limit))

    def prune(self, limit: int) -> Operation[int]:
        return self._writing("prune", lambda world: prune(world, limit))

    def find(self, selection: Selection, page: Page) -> Operation[list[Job]]:
        return self._reading("find", lambda world: find(world, selection, page))

    def count(self, selection: Selection) -> Operation[int]:
        return self._reading("count", lambda _: counted(selection))

    def census(self, *, with_finished: bool = True, most: int | None = None) -> Operation[Census]:
        return self._reading("census", lambda world: census(world, with_finished=with_finished, most=most))

    def search(self, selection: Selection, search: Search) -> Operation[Found]:
        return self._reading("search", lambda world: find_text(world, selection, search))

    def failures(self, limit: int) -> Operation[list[FailureGroup]]:
        return self._reading("failures", lambda world: failures(world, limit))

    def explain(self, job_id: str) -> Operation[Standing | None]:
        return self._reading("explain", lambda world: explain(world, job_id))

    def report(self, progress: Mapping[Fence, str]) -> Operation[None]:
        return self._writing("report", lambda _: report(progress))

    # workers

    def leave(self, worker: str) -> Operation[None]:
        return self._writing("leave", lambda _: workers.leave(worker))

    def workers(self) -> Operation[list[Attendance]]:
        return self._reading("workers", workers.workers)

    # switches

    def hold(self, switch: Switch) -> Operation[None]:
        return self._writing("hold", lambda _: switches.hold(switch))

    def free(self, scope: Scope, name: str) -> Operation[bool]:
        return self._writing("free", lambda _: switches.free(scope, name))

    def switches(self) -> Operation[list[Switch]]:
        return self._reading("switches", switches.switches)

    # locks

    def grip(self, name: str, owner: str, ttl: timedelta) -> Operation[Grip | None]:
        return self._writing("grip", lambda world: locks.grip(world, name, owner, ttl))

    def keep_grip(self, grip: Grip, ttl: timedelta) -> Operation[bool]:
        return self._writing("keep_grip", lambda world: locks.keep_grip(world, grip, ttl))

    def let_go(self, grip: Grip) -> Operation[bool]:
        return self._writing("let_go", lambda _: locks.let_go(grip))

    # records

    def record(self, kind: str, name: str, text: str | None) -> Operation[None]:
        return self._writing("record", lambda _: records.record(kind, name, text))

    def records(self, kind: str) -> Operation[dict[str, str]]:
        return self._reading("records", lambda _: records.records(kind))

    # diaries

    def jot(self, kind: str, text: str, *, keep: timedelta, number: int | None = None) -> Operation[int]:
        return self._writing("jot", lambda world: jot(world, kind, text, keep, number))

    def diary(
        self, kind: str, *, limit: int, before: int | None = None, since: datetime | None = None
    ) -> Operation[list[Entry]]:
        return self._reading("diary", lambda _: diary(kind, limit, before, since))

    def _writing(self, name: str, act: Callable[[World], Steps[T]]) -> Operation[T]:
        return Operation(name, lambda: entered(name, self._world(), act, self.level))

    def _reading(self, name: str, act: Callable[[World], Steps[T]]) -> Operation[T]:
        return Operation(name, lambda: act(self._world()), writes=False)

    def _world(self) -> World:
        return World(Moment.read(self._clock, self._boot_id))
