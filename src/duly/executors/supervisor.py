"""The one thread that looks after all children: it sends, receives, keeps the clocks and buries the dead.

It waits in one `select` for frames, for the exit of any child and for the doorbell of other threads, no
longer than until the next thing that is due. It never waits for a single child, so a stuck one delays nobody.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final

from duly.executors.errands import ChildDied, ChildFailed, ChildNotStarted, HardLimitExceeded, Stopped, Trip
from duly.executors.frames import BrokenFrame, Kind, numbered, pack_errand, unpack_failure
from duly.executors.process import Process

LEAVING: Final = timedelta(seconds=5)  # a dismissed child has exit hooks to run
DYING: Final = timedelta(seconds=1)  # between the end of the wire and the end of the process
LOOKING: Final = timedelta(seconds=0.02)  # how often to look for an exit that no descriptor tells
TRIES: Final = 2  # a warm child may have died unnoticed; a second death before the body is the errand's doing


class Due(Enum):
    """What can come due for a child."""

    START = auto()  # the body should have begun
    SOFT = auto()
    HARD = auto()
    GRACE = auto()  # a stopped body should have ended
    IDLE = auto()
    EXIT = auto()  # it should have exited by itself
    LOOK = auto()  # see whether it has exited


@dataclass(slots=True, eq=False)
class Child:
    """A child and what the supervisor knows about it."""

    process: Process
    trip: Trip | None = None
    agenda: dict[Due, float] = field(default_factory=dict[Due, float])
    verdict: BaseException | None = None  # what its errand ends with once it is dead
    is_leaving: bool = False

    @property
    def is_idle(self) -> bool:
        """Free for the next trip."""
        return self.trip is None and not self.is_leaving

    @property
    def takes_a_place(self) -> bool:
        """Whether it counts against the size of the pool; one that is only on its way out does not."""
        return self.trip is not None or not self.is_leaving

    def plan(self, due: Due, after: timedelta | None) -> None:
        """Put something on the agenda, unless it already stands there earlier."""
        if after is not None:
            moment = time.monotonic() + after.total_seconds()
            self.agenda[due] = min(moment, self.agenda.get(due, moment))


@dataclass(frozen=True, slots=True)
class Terms:
    """How children are kept."""

    size: int
    hello: bytes
    idle_after: timedelta
    start_within: timedelta
    settled: Callable[[Trip], None]  # told just before a trip's future gets its outcome


class Supervisor:
    """Owns the children. Everything but `post` and `pids` runs in the supervising thread."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._waiting: deque[Trip] = deque()
        self._children: list[Child] = []  # the most recently used last
        self._orders: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._bell, self._doorbell = socket.socketpair()
        self._bell.settimeout(0)
        self._doorbell.settimeout(0)
        self._selector = DefaultSelector()
        self._selector.register(self._doorbell, EVENT_READ, self._answer)
        self._is_closing = False

    def post(self, order: Callable[[], None]) -> None:
        """Have something done in the supervising thread; from any thread."""
        self._orders.put(order)
        with suppress(OSError):  # a full bell rings already; a closed one has nobody to ring for
            self._bell.send(b"\0")

    def pids(self) -> list[int]:
        """The processes that are not known to be dead."""
        return [child.process.pid for child in list(self._children)]

    def run(self) -> None:
        """Supervise until closed and the last child is dead."""
        try:
            while self._children or not self._is_closing:
                self._turn()
        except BaseException:
            self._kill_all()
            raise
        finally:
            self.discard()

    def discard(self) -> None:
        """Give the descriptors back, after the run or instead of it."""
        self._selector.close()
        self._bell.close()
        self._doorbell.close()

    def take(self, trip: Trip) -> None:
        """Accept a trip; it starts when a child is free."""
        self._waiting.append(trip)

    def stop(self, trip: Trip, reason: str, grace: timedelta) -> None:
        """End a trip: a waiting one at once, a running one by asking and then by force."""
        if trip in self._waiting:
            self._waiting.remove(trip)
            if trip.begin():
                self._fail(trip, Stopped(reason))
        for child in self._children:
            if child.trip is trip:
                self._stop_body(child, trip, reason, grace)

    def close(self, reason: str, grace: timedelta) -> None:
        """End all trips and all children."""
        self._is_closing = True
        for trip in list(self._waiting):
            self.stop(trip, reason, grace)
        for child in self._children:
            if child.trip is not None:
                self._stop_body(child, child.trip, reason, grace)
            else:
                self._dismiss(child, grace)

    def _turn(self) -> None:
        for key, events in self._selector.select(self._time_left()):
            key.data(events)
        for child in list(self._children):
            self._keep_time(child)
        self._dispatch()

    def _time_left(self) -> float | None:
        moments = [moment for child in self._children for moment in child.agenda.values()]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _answer(self, _events: int) -> None:
        with suppress(BlockingIOError):
            self._doorbell.recv(2**12)
        with suppress(Empty):
            while True:
                self._orders.get_nowait()()

    def _dispatch(self) -> None:
        while self._waiting:
            child = self._idle_child()
            if child is None and not self._has_place():
                return
            trip = self._waiting.popleft()
            if trip.begin():
                self._assign(child, trip)
            else:
                self._terms.settled(trip)  # cancelled while it waited

    def _has_place(self) -> bool:
        return sum(child.takes_a_place for child in self._children) < self._terms.size

    def _idle_child(self) -> Child | None:
        return next((child for child in reversed(self._children) if child.is_idle), None)

    def _assign(self, child: Child | None, trip: Trip) -> None:
        try:
            child = child or self._start_child()
        except OSError as failure:
            self._fail(trip, ChildNotStarted(f"No child process could be started: {failure}."))
            return
        trip.tries += 1
        child.trip = trip
        child.agenda.clear()
        child.plan(Due.START, self._terms.start_within)
        errand = trip.errand
        child.process.send(pack_errand(trip.number, errand.entry, errand.imports, errand.message))
        if child.process.has_unsent:
            self._watch_wire(child)

    def _start_child(self) -> Child:
        child = Child(Process(self._terms.hello))
        self._children.append(child)
        self._selector.register(child.process.wire, EVENT_READ, partial(self._on_wire, child))
        if child.process.exit_descriptor is not None:
            self._selector.register(child.process.exit_descriptor, EVENT_READ, partial(self._on_exit, child))
        return child

    def _watch_wire(self, child: Child) -> None:
        events = EVENT_READ | EVENT_WRITE if child.process.has_unsent else EVENT_READ
        with suppress(KeyError):  # its wire has ended already
            self._selector.modify(child.process.wire, events, partial(self._on_wire, child))

    def _on_wire(self, child: Child, events: int) -> None:
        if child not in self._children:
            return  # its exit came in the same turn, and it is buried
        if events & EVENT_WRITE:
            child.process.flush()
            self._watch_wire(child)
        if events & EVENT_READ:
            self._read(child)

    def _read(self, child: Child) -> bool:
        """Take in what the child says; False when there is nothing more to read."""
        try:
            frames = child.process.receive()
        except EOFError:
            self._on_wire_ended(child)
            return False
        except BrokenFrame as failure:
            self._condemn(child, ChildFailed("BrokenFrame", str(failure)))
            return False
        for kind, payload in frames or ():
            self._on_frame(child, kind, payload)
        return frames is not None

    def _on_wire_ended(self, child: Child) -> None:
        with suppress(KeyError):
            self._selector.unregister(child.process.wire)
            child.plan(Due.EXIT, DYING)
            self._look_for_exit(child)

    def _on_frame(self, child: Child, kind: Kind, payload: bytes) -> None:
        number, content = numbered(payload)
        trip = child.trip
        if trip is None or trip.number != number or child.verdict is not None:
            return  # a thread that outlived its body still emits; a verdict stands
        match kind:
            case Kind.STARTED:
                self._on_started(child, trip)
            case Kind.EMIT:
                self._on_emit(child, trip, content)
            case Kind.RESULT:
                self._release(child)
                self._succeed(trip, content)
            case _:
                self._release(child)
                failure = ChildFailed(*unpack_failure(content))
                self._fail(trip, Stopped(trip.stop_reason) if trip.stop_reason else failure)

    def _on_started(self, child: Child, trip: Trip) -> None:
        trip.has_started = True
        child.agenda.pop(Due.START, None)
        child.plan(Due.SOFT, trip.errand.soft_limit)
        child.plan(Due.HARD, trip.errand.hard_limit)

    def _on_emit(self, child: Child, trip: Trip, message: bytes) -> None:
        try:
            trip.on_emit(message)
        except Exception as failure:  # a message nobody could take must not pass for one that was taken
            self._condemn(child, failure)

    def _release(self, child: Child) -> None:
        child.trip = None
        child.agenda.clear()
        if self._is_closing:
            self._dismiss(child, LEAVING)
        else:
            child.plan(Due.IDLE, self._terms.idle_after)
            self._children.append(self._children.pop(self._children.index(child)))

    def _keep_time(self, child: Child) -> None:
        now = time.monotonic()
        for due in [due for due, moment in child.agenda.items() if moment <= now]:
            if child.agenda.pop(due, None) is not None:
                self._on_due(child, due)

    def _on_due(self, child: Child, due: Due) -> None:
        match due:
            case Due.IDLE:
                self._dismiss(child, LEAVING)
            case Due.LOOK:
                self._on_exit(child)
                self._look_for_exit(child)
            case Due.SOFT:
                if child.trip is not None:
                    child.process.tell(Kind.SOFT_LIMIT, child.trip.number)
            case _:
                self._condemn(child, _sentence(child, due))

    def _stop_body(self, child: Child, trip: Trip, reason: str, grace: timedelta) -> None:
        if trip.stop_reason is None:
            trip.stop_reason = reason
            child.process.tell(Kind.STOP, trip.number)
        child.plan(Due.GRACE, grace)

    def _dismiss(self, child: Child, grace: timedelta) -> None:
        child.is_leaving = True
        child.process.dismiss()
        child.agenda.pop(Due.IDLE, None)
        child.plan(Due.EXIT, grace)

    def _condemn(self, child: Child, verdict: BaseException | None) -> None:
        """Kill it; its errand ends when it is dead, never before."""
        child.is_leaving = True
        child.verdict = child.verdict or verdict
        child.agenda.clear()
        child.process.kill()
        self._look_for_exit(child)

    def _look_for_exit(self, child: Child) -> None:
        if child.process.exit_descriptor is None:
            child.plan(Due.LOOK, LOOKING)

    def _on_exit(self, child: Child, _events: int = 0) -> None:
        return_code = child.process.reap()
        if return_code is None or child not in self._children:
            return
        while self._read(child):
            pass  # its last words may be the result
        self._forget(child)
        if child.trip is not None:
            self._mourn(child, child.trip, return_code)

    def _forget(self, child: Child) -> None:
        with suppress(KeyError):  # its wire has ended already
            self._selector.unregister(child.process.wire)
        if child.process.exit_descriptor is not None:
            self._selector.unregister(child.process.exit_descriptor)
        child.process.close()
        self._children.remove(child)

    def _mourn(self, child: Child, trip: Trip, return_code: int) -> None:
        died = ChildDied(return_code)
        if child.verdict is not None:
            self._fail(trip, child.verdict)
        elif trip.stop_reason is not None:
            self._fail(trip, Stopped(trip.stop_reason))
        elif trip.has_started:
            self._fail(trip, died)
        elif trip.tries < TRIES:
            self._waiting.appendleft(trip)
        else:
            self._fail(trip, ChildNotStarted(f"{TRIES} children died before the body: {died.evidence()}."))

    def _succeed(self, trip: Trip, result: bytes) -> None:
        self._terms.settled(trip)
        trip.future.set_result(result)

    def _fail(self, trip: Trip, failure: BaseException) -> None:
        self._terms.settled(trip)
        trip.future.set_exception(failure)

    def _kill_all(self) -> None:
        for child in list(self._children):
            child.process.kill()
            child.process.wait(LEAVING)
            child.process.close()
            self._children.remove(child)


def _sentence(child: Child, due: Due) -> BaseException | None:
    """What the errand of a child that is killed for this reason ends with."""
    trip = child.trip
    if trip is None:
        return None
    if due is Due.HARD and trip.errand.hard_limit is not None:
        return HardLimitExceeded(trip.errand.hard_limit)
    if due is Due.GRACE and trip.stop_reason is not None:
        return Stopped(trip.stop_reason)
    if due is Due.START:
        return ChildNotStarted(f"{trip.errand.entry!r} did not begin in time: its imports take too long.")
    return ChildFailed("BrokenPipe", "The body closed the descriptors of its process, which was then killed.")
