"""Where bodies run: on the loop, in a thread, or alone in a child process.

The bench has a fixed number of slots and a small buffer of claims that have not started. Whoever frees
a slot starts the next claim at once, without asking the store.

Both are deques without a lock: whoever starts a claim takes a slot first and a claim second, and looks
again after putting a slot back, so that no claim is left behind. Claims only ever move on, from the buffer
to a slot to the ends; so who looks in that order overlooks none.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from duly.executors.threads import Threads
from duly.lifecycle import Release
from duly.signals import Signal
from duly.worker.binding import Binding
from duly.worker.endings import Concluded
from duly.worker.hand import Holding
from duly.worker.inthreads import ThreadBodies
from duly.worker.isolation import Isolation, needs_record, runs_in_child
from duly.worker.onloop import LoopBodies, seat
from duly.worker.tempo import ENOUGH
from duly.worker.transaction import Counter

log = logging.getLogger("duly.worker")

EVERY: Final = sys.maxsize
"""A mark that is never passed: every end is told at once."""

AT_ONCE: Final = timedelta(milliseconds=1)
"""Bodies that start within it began at one moment: a store ends those together, in one statement."""
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

HOOKS = 4
"""Threads for on_failure functions: a slow one must not take a slot from the work."""


class Bench:
    """Slots, the buffer in front of them, and three ways to run a body."""

    def __init__(
        self,
        *,
        slots: int,
        loop: asyncio.AbstractEventLoop,
        trusts_lease: Callable[[], bool],
        wake: Callable[[], None],
        tell: Callable[[Holding, Signal], None],
        fail: Callable[[BaseException], None],
        counter: Counter,
        stop_grace: timedelta = timedelta(seconds=1),
    ) -> None:
        self.slots = slots
        self._counter = counter
        self._clock = counter.clock
        self.trusts_lease = trusts_lease
        self._wake = wake
        self.tell = tell
        self._lock = threading.Lock()
        self._coming = 0
        """Claims that were lent and are still to be taken in hand."""
        self._buffer: deque[Holding] = deque()
        self._vacant: deque[None] = deque([None] * slots)
        self._aside = 0
        self._to_begin: list[Holding] = []
        self._concluded: deque[Concluded] = deque()
        self._hooks = Threads(HOOKS, fail=fail)
        self._on_loop = LoopBodies(loop, counter, conclude=self._end, advance=self.advance, fail=fail)
        threads = Threads(slots, fail=fail, freed=self.advance)
        self._in_threads = ThreadBodies(threads, counter.clock, conclude=self._end)
        self._isolation = Isolation(
            slots=slots,
            clock=counter.clock,
            worker=counter.worker,
            stop_grace=stop_grace,
            tell=tell,
            conclude=self._conclude,
            fail=fail,
        )
        self._is_closing = False
        self._moment = LONG_AGO
        """The one at which bodies start just now."""
        self.low = EVERY
        """With so few claims left unstarted, whoever collects ends is called; with more he may sleep on."""

    def bind(self, holding: Holding) -> Binding:
        """What ties a run to a transaction."""
        return Binding(self._counter, holding)

    def strike(self, holding: Holding) -> None:
        """Cancel a body on the loop; one in a thread can only be asked."""
        if holding.task.is_async:
            self._on_loop.strike(holding)

    # what the pump does

    @property
    def free(self) -> int:
        """Slots that would start a claim at once."""
        return max(0, len(self._vacant) - self.buffered)

    @property
    def buffered(self) -> int:
        """Claims that have not started."""
        return len(self._buffer) + self._coming

    @property
    def is_empty(self) -> bool:
        """Nothing waits to run, runs, or has ended without being collected."""
        with self._lock:  # else what is just being looked through would be overlooked
            is_waiting = self._buffer or self._coming or self._to_begin
            return not (is_waiting or len(self._vacant) < self.slots or self._aside or self._concluded)

    @property
    def has_news(self) -> bool:
        """Something for the pump to fetch, and worth its while."""
        return bool(self._to_begin) or self._is_ripe

    @property
    def has_to_begin(self) -> bool:
        """Runs wait whose start must be recorded before it happens."""
        return bool(self._to_begin)

    @property
    def _is_ripe(self) -> bool:
        return bool(self._concluded) and (self.buffered <= self.low or len(self._concluded) >= ENOUGH)

    def expect(self, amount: int) -> None:
        """So many claims were just lent, and are still to be unpacked; `keep` gets them."""
        self._coming = amount

    def keep(self, holdings: list[Holding]) -> None:
        """Claims that were lent. They start when a slot becomes free, or at the next `advance`."""
        self._moment = LONG_AGO  # none of them began before it was lent
        self._buffer.extend(holdings)
        self._coming = 0

    def collect(self) -> list[Concluded]:
        """The runs that ended since the last look."""
        return [self._concluded.popleft() for _ in range(len(self._concluded))]

    def take_to_begin(self) -> list[Holding]:
        """Runs whose start must be recorded before it happens."""
        with self._lock:
            waiting, self._to_begin = self._to_begin, []
        return waiting

    def begin_later(self, holdings: list[Holding]) -> None:
        """The store did not answer: their starts are recorded when it does."""
        with self._lock:
            self._to_begin.extend(holdings)

    def begin(self, holding: Holding, *, is_recorded: bool) -> None:
        """Start a run whose start is on record; one that could not be recorded is handed back."""
        holding.has_begun = is_recorded
        if is_recorded:
            holding.started_at, holding.started = self._clock.now(), time.monotonic()
            self._start(holding)
        else:
            note = "superseded or cancelled before it started"
            self._conclude(Concluded(holding, Release(note=note)))

    def return_all_unstarted(self, note: str) -> None:
        """Hand the buffer back: the worker is stopping."""
        for holding in self.take_to_begin():
            self._end(Concluded(holding, Release(note=note)))
        self.return_unstarted(lambda _: True, note)

    def return_unstarted(self, is_chosen: Callable[[Holding], bool], note: str) -> None:
        """Hand back those that have not started, of those that are chosen."""
        with self._lock:
            for holding in self._unstarted():
                if is_chosen(holding):
                    self._concluded.append(Concluded(holding, Release(note=note)))
                else:
                    self._buffer.append(holding)
        self.advance()
        self._wake()

    def _unstarted(self) -> list[Holding]:
        """Take all that wait; whoever frees a slot meanwhile finds none, and those that stay come back."""
        unstarted: list[Holding] = []
        while self._buffer:
            with suppress(IndexError):  # somebody else was quicker
                unstarted.append(self._buffer.popleft())
        return unstarted

    def call_aside(self, act: Callable[[], None]) -> None:
        """Run something of the user's that is no body, where it can block nobody."""
        with self._lock:
            self._aside += 1
        self._hooks.submit(act, lambda _value, _failure: self._back_from_aside())

    def _back_from_aside(self) -> None:
        with self._lock:
            self._aside -= 1
        self._wake()

    def close(self, grace: timedelta) -> None:
        """End what can be ended. Bodies stuck in threads stay behind and die with the process."""
        self._is_closing = True
        self._isolation.close(grace)
        stuck = [*self._in_threads.close(grace), *self._hooks.close(grace=grace)]
        for token in stuck:
            log.warning("a body is stuck in a thread and was left behind: %s", token.body)
        self._counter.close()

    # starting

    def advance(self) -> None:
        """Start what waits, as far as slots are free; tell who collects what has ended.

        The clocks and the lease are looked at once for all of them: they start in the same moment.
        """
        if self._buffer and self._vacant and not self._is_closing:
            may_start, now, started = self.trusts_lease(), self._now(), time.monotonic()
            while (holding := self._next()) is not None:
                # A claim that waited through a freeze may be somebody else's by now.
                if holding.halt is None and may_start:
                    holding.started_at, holding.started = now, started
                    self._dispatch(holding)
                else:
                    self._end(Concluded(holding, Release(note="its lease was lost before it started")))
        if self._is_ripe:
            self._wake()

    def _now(self) -> datetime:
        """Bodies in threads start one by one, so a moment lasts a little, or each would have its own."""
        now, moment = self._clock.now(), self._moment
        if moment <= now < moment + AT_ONCE:
            return moment
        self._moment = now
        return now

    def _next(self) -> Holding | None:
        """The next claim, with a slot for it; None if either is lacking."""
        while self._buffer:
            try:
                self._vacant.pop()
            except IndexError:
                return None  # whoever frees one looks at the buffer after that
            try:
                return self._buffer.popleft()
            except IndexError:
                self._vacant.append(None)
        return None

    def _dispatch(self, holding: Holding) -> None:
        task = holding.task
        if task.starts_at_once and not holding.claim.is_suspect:  # most; all come by here
            (self._on_loop if task.is_async else self._in_threads).start(holding)
        elif needs_record(holding):
            holding.started_at = None
            self.begin_later([holding])
            self._wake()
        else:
            self._start(holding)

    def _start(self, holding: Holding) -> None:
        if runs_in_child(holding):
            self._isolation.start(holding, seat(holding))
        else:
            (self._on_loop if holding.task.is_async else self._in_threads).start(holding)

    # ending

    def _conclude(self, ended: Concluded) -> None:
        self._end(ended)
        self.advance()

    def _end(self, ended: Concluded) -> None:
        """First the end, then the slot: at no moment is it in neither."""
        self._concluded.append(ended)
        self._vacant.append(None)
