"""The memory store: the executable specification, and what `memory://` opens in users' tests."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from duly.clock import Clock, SystemClock
from duly.errors import WrongConnection
from duly.job import Fence, Job, Request
from duly.lifecycle import Settled
from duly.stores.bells import Bell
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
from duly.stores.memory.amend import amend, prune
from duly.stores.memory.claim import claim
from duly.stores.memory.deliver import deliver
from duly.stores.memory.find import census, count, explain, failures, find
from duly.stores.memory.find import search as find_text
from duly.stores.memory.put import put
from duly.stores.memory.renew import begin, disown, renew, report
from duly.stores.memory.settle import settle
from duly.stores.memory.world import World
from duly.stores.reports import Entry, FailureGroup, Found, Search

T = TypeVar("T")


class MemoryStore:
    """All jobs in this process; gone with it."""

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        self.url = url
        self.world = World(clock or SystemClock())
        self._lock = threading.RLock()
        self._bells: weakref.WeakSet[Bell] = weakref.WeakSet()

    # driving

    def run(self, operation: Operation[T]) -> T:
        with self._lock:
            steps = operation.steps()
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
        raise AssertionError(f"{operation.name} asked the memory store for a statement")

    async def arun(self, operation: Operation[T]) -> T:
        return self.run(operation)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        raise WrongConnection(
            f"memory:// has no database, so {operation.name} cannot join the transaction of {connection!r}. "
            "Use sqlite:/// or postgresql:// to enqueue inside a transaction."
        )

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        return self.run_on(connection, operation)

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def check_schema(self) -> None:
        """Nobody else can change what only this process sees."""

    # jobs

    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self._operation("put", lambda: put(self.world, requests))

    def offer(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self.put(requests)

    def deliver(self, outbox: str, parcels: Sequence[Parcel]) -> Operation[list[Placed]]:
        return self._operation("deliver", lambda: deliver(self.world, outbox, parcels))

    def claim(self, ask: Ask) -> Operation[Claimed]:
        return self._operation("claim", lambda: claim(self.world, ask))

    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        return self._operation("begin", lambda: begin(self.world, fences, isolated=isolated, once=once))

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]:
        return self._operation("renew", lambda: renew(self.world, card, fences, lease))

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Settled]]:
        return self._operation("settle", lambda: settle(self.world, worker, settlements))

    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]:
        return self._operation(
            "turn", lambda: Turned(settle(self.world, ask.worker, settlements), claim(self.world, ask))
        )

    def foresee(self, settlements: Sequence[Settlement]) -> None:
        """Nothing is packed here."""

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]:
        return self._operation("disown", lambda: disown(self.world, worker, held))

    def amend(
        self, selection: Selection, amendment: Amendment, *, by: str = "", limit: int = 1000
    ) -> Operation[list[Amended]]:
        return self._operation("amend", lambda: amend(self.world, selection, amendment, by=by, limit=limit))

    def prune(self, limit: int) -> Operation[int]:
        return self._operation("prune", lambda: prune(self.world, limit))

    def find(self, selection: Selection, page: Page) -> Operation[list[Job]]:
        return self._operation("find", lambda: find(self.world, selection, page))

    def count(self, selection: Selection) -> Operation[int]:
        return self._operation("count", lambda: count(self.world, selection))

    def census(self, *, with_finished: bool = True, most: int | None = None) -> Operation[Census]:
        return self._operation("census", lambda: census(self.world, with_finished=with_finished, most=most))

    def search(self, selection: Selection, search: Search) -> Operation[Found]:
        return self._operation("search", lambda: find_text(self.world, selection, search))

    def failures(self, limit: int) -> Operation[list[FailureGroup]]:
        return self._operation("failures", lambda: failures(self.world, limit))

    def explain(self, job_id: str) -> Operation[Standing | None]:
        return self._operation("explain", lambda: explain(self.world, job_id))

    def report(self, progress: Mapping[Fence, str]) -> Operation[None]:
        return self._operation("report", lambda: report(self.world, progress))

    # workers

    def leave(self, worker: str) -> Operation[None]:
        def forget() -> None:
            self.world.workers.pop(worker, None)

        return self._operation("leave", forget)

    def workers(self) -> Operation[list[Attendance]]:
        def read() -> list[Attendance]:
            world = self.world
            return [
                Attendance(presence.card, presence.seen_at, world.has_lease(worker))
                for worker, presence in world.workers.items()
            ]

        return self._operation("workers", read)

    # switches

    def hold(self, switch: Switch) -> Operation[None]:
        def write() -> None:
            held = self.world.switches.get((switch.scope, switch.name))
            if held is None or held.ends_by(switch):
                self.world.switches[switch.scope, switch.name] = switch

        return self._operation("hold", write)

    def free(self, scope: Scope, name: str) -> Operation[bool]:
        return self._operation("free", lambda: self.world.switches.pop((scope, name), None) is not None)

    def switches(self) -> Operation[list[Switch]]:
        def read() -> list[Switch]:
            now = self.world.now()
            return [
                switch
                for switch in self.world.switches.values()
                if switch.until is None or switch.until > now
            ]

        return self._operation("switches", read)

    # locks

    def grip(self, name: str, owner: str, ttl: timedelta) -> Operation[Grip | None]:
        return self._operation("grip", lambda: self.world.grip(name, owner, ttl))

    def keep_grip(self, grip: Grip, ttl: timedelta) -> Operation[bool]:
        def keep() -> bool:
            held = self.world.locks.get(grip.name)
            if held is None or held.token != grip.token:
                return False
            held.until = self.world.clock.boot() + ttl.total_seconds()
            return True

        return self._operation("keep_grip", keep)

    def let_go(self, grip: Grip) -> Operation[bool]:
        def release() -> bool:
            held = self.world.locks.get(grip.name)
            if held is None or held.token != grip.token:
                return False
            del self.world.locks[grip.name]
            return True

        return self._operation("let_go", release)

    # records

    def record(self, kind: str, name: str, text: str | None) -> Operation[None]:
        def write() -> None:
            if text is None:
                self.world.records.pop((kind, name), None)
            else:
                self.world.records[kind, name] = text

        return self._operation("record", write)

    def records(self, kind: str) -> Operation[dict[str, str]]:
        return self._operation(
            "records", lambda: {name: text for (of, name), text in self.world.records.items() if of == kind}
        )

    # diaries

    def jot(self, kind: str, text: str, *, keep: timedelta, number: int | None = None) -> Operation[int]:
        return self._operation("jot", lambda: self.world.jot(kind, text, keep, number))

    def diary(
        self, kind: str, *, limit: int, before: int | None = None, since: datetime | None = None
    ) -> Operation[list[Entry]]:
        def read() -> list[Entry]:
            entries = [kept.entry for _, kept in sorted(self.world.diaries[kind].items(), reverse=True)]
            return [
                entry
                for entry in entries
                if (before is None or entry.number < before) and (since is None or entry.at >= since)
            ][:limit]

        return self._operation("diary", read)

    # the doorbell

    def ring(self) -> None:
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.wake()

    def doorbell(self) -> Bell:
        bell = Bell()
        with self._lock:  # somebody may be ringing the others
            self._bells.add(bell)
        return bell

    def _operation(self, name: str, act: Callable[[], T]) -> Operation[T]:
        def steps() -> Steps[T]:
            return act()
            yield  # type: ignore[unreachable]  # makes this a generator like every other operation

        return Operation(name, steps)
