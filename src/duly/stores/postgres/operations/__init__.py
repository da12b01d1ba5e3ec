"""The operations of the PostgreSQL store: descriptions that perform no I/O.

Each is a generator over the statements of the file in `sql/` that bears its name. A driver runs it
inside one transaction, on a connection of the engine or on the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from duly.bundle import Bundle
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
from duly.stores.house import allowed, check, check_level, hears
from duly.stores.postgres.convoy import LARGEST, Load
from duly.stores.postgres.operations import locks, records, switches, workers
from duly.stores.postgres.operations.again import Needs
from duly.stores.postgres.operations.amend import amend
from duly.stores.postgres.operations.arrivals import track_of
from duly.stores.postgres.operations.claim import claim
from duly.stores.postgres.operations.deliver import deliver
from duly.stores.postgres.operations.diary import diary, jot
from duly.stores.postgres.operations.failures import failures
from duly.stores.postgres.operations.find import census, explain, find
from duly.stores.postgres.operations.finish import fence_of
from duly.stores.postgres.operations.foreseen import Foreseen
from duly.stores.postgres.operations.intake import absorb, offer
from duly.stores.postgres.operations.lanes import Book
from duly.stores.postgres.operations.loads import Loads
from duly.stores.postgres.operations.moment import Moment
from duly.stores.postgres.operations.prune import prune
from duly.stores.postgres.operations.put import Forms, put, put_swiftly
from duly.stores.postgres.operations.renew import Beat, begin, disown, renew, renew_swiftly, report
from duly.stores.postgres.operations.search import search as find_text
from duly.stores.postgres.operations.select import counted
from duly.stores.postgres.operations.settle import settle, settle_swiftly
from duly.stores.postgres.operations.sight import Sight
from duly.stores.postgres.operations.swift import Message, Outlook
from duly.stores.postgres.operations.together import bare, bare_fences
from duly.stores.postgres.operations.turn import Turning
from duly.stores.postgres.operations.world import World
from duly.stores.reports import Entry, FailureGroup, Found, Search
from duly.stores.tables.haste import Haste

T = TypeVar("T")


@dataclass(slots=True)
class Mood:
    """What the tries of one operation so far have taught."""

    is_wary: bool = False
    """Somebody holds a row for long: now nothing is waited for."""


@dataclass(slots=True)
class Errand(Operation[T]):
    """An operation, and what its driver must know about it."""

    absorbs: bool = False
    """Requests offered before it take effect before it."""
    may_repeat: bool = False
    """Its answer may be lost: done twice, it does no more than once."""
    mood: Mood = field(default_factory=Mood)
    message: Callable[[], Message[T] | None] | None = None
    """How to say it in one message, where nothing is out of the ordinary."""
    load: Load | None = None
    """A plain request, which may be stored together with others."""


class Operations:
    """What a PostgreSQL store can do. Without a clock of its own it goes by the server's."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self.level: int | None = None
        """The schema this code is made for, as its driver knows it."""
        self._book = Book()
        self._forms = Forms(lambda: self._outlook)
        self._sight = Sight()
        self._loads = Loads()
        self._haste = Haste(first=2, longest=64)
        self._foreseen = Foreseen(bare)
        self._disowned: dict[str, int] = {}
        """How often each worker disowned claims here."""

    def forget(self) -> None:
        """Nothing learnt is taken for granted at the next opening."""
        self._book.forget()
        self._forms.forget()
        self._sight.forget()
        self._loads.forget()
        self._foreseen.forget()

    # jobs

    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        def message() -> Message[list[Placed]] | None:
            self._know_lane_of(requests)
            return put_swiftly(self._forms, requests, self._put)

        mood = Mood()
        steps = self._steps("put", lambda world: put(world, requests), mood)
        load = self._load(requests)
        return Errand("put", steps, absorbs=True, may_repeat=True, mood=mood, message=message, load=load)

    def _know_lane_of(self, requests: Sequence[Request]) -> None:
        """Many are worth a look at the lanes beforehand: without it, the first thousand took 20 ms longer."""
        if isinstance(requests, Bundle) and self._forms.lacks_lane(requests):
            track = track_of(requests.pattern)
            find = self._placing("put", lambda world: self._book.find_or_make(world.moment, track))
            raise Needs(find, self._book.learn_made)

    def _load(self, requests: Sequence[Request]) -> Load | None:
        if not isinstance(requests, Bundle) or len(requests.ids) != 1:
            return None
        if len(requests.arguments[0]) > LARGEST:
            return None
        return None if self._forms.find(requests.pattern) is None else Load(requests, self.put)

    def _put(self, requests: Sequence[Request]) -> Errand[list[Placed]]:
        return self._placing("put", lambda world: put(world, requests), may_repeat=True)

    def offer(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self._writing("offer", lambda world: offer(world, requests))

    def deliver(self, outbox: str, parcels: Sequence[Parcel]) -> Operation[list[Placed]]:
        return self._placing("deliver", lambda world: deliver(world, outbox, parcels), may_repeat=True)

    def absorb(self) -> Operation[int]:
        """Place what was offered."""
        return self._writing("absorb", absorb, may_repeat=True)

    def claim(self, ask: Ask) -> Operation[Claimed]:
        claiming = self._placing("claim", lambda world: self._lend(world, ask))
        turning = self._turning(ask, claiming)
        return replace(claiming, message=turning.claim)

    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        return self._placing("begin", lambda _: begin(fences, isolated=isolated, once=once), may_repeat=True)

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]:
        beat = Beat(card, fences, lease)
        renewing = self._placing("renew", lambda world: renew(world, beat), may_repeat=True)
        return replace(renewing, message=lambda: renew_swiftly(self._outlook, beat, renewing))

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Settled]]:
        def act(world: World) -> Steps[list[Settled]]:
            if not hears(world.moment.notice):
                return [Settled.LOST] * len(settlements)
            return (yield from settle(world, worker, settlements))

        return self._placing("settle", act)

    def foresee(self, settlements: Sequence[Settlement]) -> None:
        self._foreseen.foresee(settlements)

    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]:
        def act(world: World) -> Steps[Turned]:
            if not hears(world.moment.notice):
                claimed = yield from self._lend(world, ask)
                return Turned([Settled.LOST] * len(settlements), claimed)
            answers = yield from settle_swiftly(world, ask.worker, settlements)
            claimed = yield from self._lend(world, ask, answers.settled)
            return Turned(answers.in_order(), claimed)

        def message() -> Message[Turned] | None:
            return turning.turn(len(settlements), bare_fences(self._foreseen.take(settlements)))

        turning = self._turning(ask, self.claim(ask))
        return replace(self._placing("turn", act), message=message)

    def _lend(self, world: World, ask: Ask, settled: Sequence[int] = ()) -> Steps[Claimed]:
        return claim(world, self._sight, self._loads, self._reach(world, ask), settled)

    def _turning(self, ask: Ask, claiming: Operation[Claimed]) -> Turning:
        disowned = self._disowned.get(ask.worker, 0)
        return Turning(self._outlook, self._sight, self._haste, ask, claiming, disowned)

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]:
        return self._placing(
            "disown", lambda world: disown(world, worker, held, self._disowned), may_repeat=True
        )

    def amend(
        self, selection: Selection, amendment: Amendment, *, by: str = "", limit: int = 1000
    ) -> Operation[list[Amended]]:
        return self._placing("amend", lambda world: amend(world, selection, amendment, by=by, limit=limit))

    def prune(self, limit: int) -> Operation[int]:
        return self._placing("prune", lambda world: prune(world, limit), may_repeat=True)

    def find(self, selection: Selection, page: Page) -> Operation[list[Job]]:
        return self._reading("find", lambda world: find(world, selection, page))

    def count(self, selection: Selection) -> Operation[int]:
        return self._reading("count", lambda world: counted(world, selection))

    def census(self, *, with_finished: bool = True, most: int | None = None) -> Operation[Census]:
        return self._reading("census", lambda world: census(world, with_finished=with_finished, most=most))

    def search(self, selection: Selection, search: Search) -> Operation[Found]:
        return self._reading("search", lambda world: find_text(world, selection, search))

    def failures(self, limit: int) -> Operation[list[FailureGroup]]:
        return self._reading("failures", lambda world: failures(world, limit))

    def explain(self, job_id: str) -> Operation[Standing | None]:
        return self._reading("explain", lambda world: explain(world, job_id))

    def report(self, progress: Mapping[Fence, str]) -> Operation[None]:
        return self._writing("report", lambda _: report(progress), may_repeat=True)

    # workers

    def leave(self, worker: str) -> Operation[None]:
        return self._writing("leave", lambda _: workers.leave(worker), may_repeat=True)

    def workers(self) -> Operation[list[Attendance]]:
        return self._reading("workers", workers.workers)

    # switches

    def hold(self, switch: Switch) -> Operation[None]:
        return self._writing("hold", lambda _: switches.hold(switch), may_repeat=True)

    def free(self, scope: Scope, name: str) -> Operation[bool]:
        return self._writing("free", lambda _: switches.free(scope, name))

    def switches(self) -> Operation[list[Switch]]:
        return self._reading("switches", switches.switches)

    # locks

    def grip(self, name: str, owner: str, ttl: timedelta) -> Operation[Grip | None]:
        return self._writing("grip", lambda world: locks.grip(world, name, owner, ttl))

    def keep_grip(self, grip: Grip, ttl: timedelta) -> Operation[bool]:
        return self._writing("keep_grip", lambda world: locks.keep_grip(world, grip, ttl), may_repeat=True)

    def let_go(self, grip: Grip) -> Operation[bool]:
        return self._writing("let_go", lambda _: locks.let_go(grip))

    # records

    def record(self, kind: str, name: str, text: str | None) -> Operation[None]:
        return self._writing("record", lambda _: records.record(kind, name, text), may_repeat=True)

    def records(self, kind: str) -> Operation[dict[str, str]]:
        return self._reading("records", lambda _: records.records(kind))

    # diaries

    def jot(self, kind: str, text: str, *, keep: timedelta, number: int | None = None) -> Operation[int]:
        return self._writing("jot", lambda world: jot(world, kind, text, keep, number))

    def diary(
        self, kind: str, *, limit: int, before: int | None = None, since: datetime | None = None
    ) -> Operation[list[Entry]]:
        return self._reading("diary", lambda _: diary(kind, limit, before, since))

    @property
    def _outlook(self) -> Outlook:
        return Outlook(self._book, self._clock, self.level)

    def ending(self, settlement: Settlement) -> dict[str, int | None] | None:
        """By which a run that is done with nothing to keep ends in its own transaction; None for others."""
        return fence_of(settlement, self._outlook)

    def _reach(self, world: World, ask: Ask) -> Ask:
        is_outdated = self.level is not None and world.moment.oldest_code > self.level
        return allowed(ask, world.moment.notice, is_outdated=is_outdated)

    # how each is made

    def _placing(self, name: str, act: Callable[[World], Steps[T]], *, may_repeat: bool = False) -> Errand[T]:
        mood = Mood()
        return Errand(name, self._steps(name, act, mood), absorbs=True, may_repeat=may_repeat, mood=mood)

    def _writing(
        self, name: str, act: Callable[[World], Steps[T]], *, may_repeat: bool = False
    ) -> Operation[T]:
        return Errand(name, self._steps(name, act, Mood()), may_repeat=may_repeat)

    def _reading(self, name: str, act: Callable[[World], Steps[T]]) -> Operation[T]:
        return Errand(name, self._steps(name, act, Mood()), writes=False, may_repeat=True)

    def _steps(self, name: str, act: Callable[[World], Steps[T]], mood: Mood) -> Callable[[], Steps[T]]:
        def steps() -> Steps[T]:
            moment = yield from Moment.read(self._clock)
            if self.level is not None:
                check_level(name, self.level, moment.oldest_code)
            check(name, moment.notice)
            return (yield from act(World(moment, self._book, is_wary=mood.is_wary)))

        return steps
