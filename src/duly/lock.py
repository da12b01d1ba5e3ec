"""`app.lock`: one holder at a time, over all processes, with a token that fences writes elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from duly.clock import SystemClock
from duly.durations import Duration, duration
from duly.errors import LockLost, LockTaken, StoreError
from duly.ids import new_id
from duly.stores.contract import Grip, Store
from duly.stores.drive import Operation

log = logging.getLogger("duly.lock")

FIRST_TRY, LAST_TRY = 0.01, 0.25
RENEWALS_PER_TTL = 3

_boot = SystemClock().boot
"""Unlike the monotonic clock it goes on while the machine sleeps."""


class HeldLock:
    """A lock in hand, renewed from a thread of its own: a body that blocks must not lose it."""

    def __init__(self, store: Callable[[], Store], grip: Grip, ttl: timedelta, asked: float) -> None:
        self.name = grip.name
        self.token = grip.token
        """The fencing token: larger than that of every earlier holder."""
        self._store = store
        self._grip = grip
        self._ttl = ttl
        self._trusted_until = asked + ttl.total_seconds()
        self._is_lost = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"duly-lock-{self.name}", daemon=True)
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        """True when somebody else may hold the lock by now, also if nobody could tell us."""
        return self._is_lost or _boot() > self._trusted_until

    def check(self) -> None:
        """Raise LockLost if somebody else may hold the lock by now."""
        if self.is_lost:
            raise LockLost(self.name, self.token)

    def end(self) -> Operation[bool]:
        """No more renewals; what is left to do is to let go."""
        self._is_over.set()
        return self._store().let_go(self._grip)

    def _renew(self) -> None:
        while not self._is_over.wait((self._ttl / RENEWALS_PER_TTL).total_seconds()):
            asked = _boot()
            try:
                is_ours = self._store().run(self._store().keep_grip(self._grip, self._ttl))
            except StoreError as error:  # as long as the ttl lasts, it is only an outage
                log.warning("lock %r could not be renewed: %s", self.name, error)
                continue
            if not is_ours:
                self._is_lost = True
                return
            self._trusted_until = asked + self._ttl.total_seconds()


class Lock:
    """A context manager, sync and async; one object may serve many threads and tasks, one at a time."""

    def __init__(self, store: Callable[[], Store], name: str, ttl: Duration, wait: Duration) -> None:
        self.name = name
        self._store = store
        self._ttl = duration(ttl, what="ttl", allow_zero=False)
        self._wait = duration(wait, what="wait")
        self._owner = new_id()
        self._held: dict[object, HeldLock] = {}

    @property
    def token(self) -> int:
        """The fencing token of whoever asks; LockLost if that is not the holder."""
        return self._mine().token

    def check(self) -> None:
        """Raise LockLost if somebody else may hold the lock by now."""
        self._mine().check()

    def __enter__(self) -> HeldLock:
        patience = Patience(self.name, self._wait)
        while not self._took(_boot(), self._store().run(self._ask())):
            time.sleep(patience.next())
        return self._mine()

    async def __aenter__(self) -> HeldLock:
        patience = Patience(self.name, self._wait)
        while not self._took(_boot(), await self._store().arun(self._ask())):
            await asyncio.sleep(patience.next())
        return self._mine()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        held = self._held.pop(_holder())
        try:
            is_ours = self._store().run(held.end())
        except StoreError as failure:
            is_ours = _left_to_its_ttl(held, failure)
        _complain(held, is_ours=is_ours, is_failing=error is not None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        held = self._held.pop(_holder())
        try:
            is_ours = await self._store().arun(held.end())
        except StoreError as failure:
            is_ours = _left_to_its_ttl(held, failure)
        _complain(held, is_ours=is_ours, is_failing=error is not None)

    def _ask(self) -> Operation[Grip | None]:
        return self._store().grip(self.name, self._owner, self._ttl)

    def _took(self, asked: float, grip: Grip | None) -> bool:
        if grip is not None:
            self._held[_holder()] = HeldLock(self._store, grip, self._ttl, asked)
        return grip is not None

    def _mine(self) -> HeldLock:
        try:
            return self._held[_holder()]
        except KeyError:
            raise LockLost(self.name, 0) from None


class Patience:
    """How long to wait before the next try, and when to give up."""

    def __init__(self, name: str, wait: timedelta) -> None:
        self._name = name
        self._wait = wait
        self._started = time.monotonic()
        self._step = FIRST_TRY

    def next(self) -> float:
        """Seconds until the next try; LockTaken once there is no time left."""
        left = self._wait.total_seconds() - (time.monotonic() - self._started)
        if left <= 0:
            raise LockTaken(self._name, self._wait)
        step, self._step = self._step, min(self._step * 2, LAST_TRY)
        return min(step, left)


def _holder() -> object:
    """The asyncio task, else the thread, whose block this is."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


def _left_to_its_ttl(held: HeldLock, failure: StoreError) -> bool:
    """A lock that could not be let go of is free again when its ttl is over: no error of the block."""
    log.warning("lock %r could not be let go of, its ttl must run out: %s", held.name, failure)
    return not held.is_lost


def _complain(held: HeldLock, *, is_ours: bool, is_failing: bool) -> None:
    """A lock that ran out is an error of the protected block, unless that has its own."""
    if is_ours:
        return
    if is_failing:
        log.warning("lock %r (token %d) was lost while it was held", held.name, held.token)
        return
    raise LockLost(held.name, held.token)
