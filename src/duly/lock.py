"""`app.lock`: one holder at a time, over all processes, with a token that fences writes elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from duly.durations import Duration, duration
from duly.errors import LockLost, LockTaken, StoreError
from duly.ids import new_id
from duly.stores.contract import Grip, Store
from duly.stores.drive import Operation

log = logging.getLogger("duly.lock")

FIRST_TRY, LAST_TRY = 0.01, 0.25


class Lock:
    """A context manager, sync and async. It is renewed while held; `token` rises with every holder."""

    def __init__(self, store: Callable[[], Store], name: str, ttl: Duration, wait: Duration) -> None:
        self.name = name
        self._store = store
        self._ttl = duration(ttl, what="ttl", allow_zero=False)
        self._wait = duration(wait, what="wait")
        self._owner = new_id()
        self._grip: Grip | None = None
        self._is_over = threading.Event()
        self._is_lost = False

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every earlier holder."""
        if self._grip is None:
            raise LockLost(self.name, 0)
        return self._grip.token

    def check(self) -> None:
        """Raise LockLost if somebody else may hold the lock by now."""
        if self._is_lost or self._grip is None:
            raise LockLost(self.name, self._grip.token if self._grip else 0)

    def __enter__(self) -> Lock:
        started, step = time.monotonic(), FIRST_TRY
        while not self._took(self._store().run(self._ask())):
            time.sleep(self._patience(started, step))
            step = min(step * 2, LAST_TRY)
        return self

    async def __aenter__(self) -> Lock:
        started, step = time.monotonic(), FIRST_TRY
        while not self._took(await self._store().arun(self._ask())):
            await asyncio.sleep(self._patience(started, step))
            step = min(step * 2, LAST_TRY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        grip = self._end()
        is_ours = self._store().run(self._store().let_go(grip))
        self._complain(grip, is_ours=is_ours, is_failing=error is not None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        grip = self._end()
        is_ours = await self._store().arun(self._store().let_go(grip))
        self._complain(grip, is_ours=is_ours, is_failing=error is not None)

    def _ask(self) -> Operation[Grip | None]:
        return self._store().grip(self.name, self._owner, self._ttl)

    def _took(self, grip: Grip | None) -> bool:
        if grip is None:
            return False
        self._grip, self._is_lost = grip, False
        self._is_over.clear()
        threading.Thread(target=self._renew, args=(grip,), name=f"duly-lock-{self.name}", daemon=True).start()
        return True

    def _patience(self, started: float, step: float) -> float:
        left = self._wait.total_seconds() - (time.monotonic() - started)
        if left <= 0:
            raise LockTaken(self.name, self._wait)
        return min(step, left)

    def _renew(self, grip: Grip) -> None:
        """From a thread of its own: a body that blocks must not lose its lock."""
        deadline = time.monotonic() + self._ttl.total_seconds()
        while not self._is_over.wait((self._ttl / 3).total_seconds()):
            asked = time.monotonic()
            try:
                is_ours = self._store().run(self._store().keep_grip(grip, self._ttl))
            except StoreError as error:
                log.warning("lock %r could not be renewed: %s", self.name, error)
                is_ours = asked < deadline
            else:
                deadline = asked + self._ttl.total_seconds()
            if not is_ours:
                self._is_lost = True
                return

    def _end(self) -> Grip:
        self._is_over.set()
        if self._grip is None:
            raise LockLost(self.name, 0)
        grip, self._grip = self._grip, None
        return grip

    def _complain(self, grip: Grip, *, is_ours: bool, is_failing: bool) -> None:
        """A lock that ran out is an error of the protected block, unless that has its own."""
        if is_ours and not self._is_lost:
            return
        if is_failing:
            log.warning("lock %r (token %d) was lost while it was held", self.name, grip.token)
            return
        raise LockLost(self.name, grip.token)
