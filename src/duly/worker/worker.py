"""The life of a worker: start, serve, drain, leave."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from types import TracebackType

from duly.app import App
from duly.durations import Duration, duration
from duly.errors import DefinitionError, DulyError, SchemaMismatch, StoreError, StoreMoved
from duly.ids import worker_id
from duly.job import Fence
from duly.metrics.vitals import Health, Vitals
from duly.reactions import check_url
from duly.signals import Signal
from duly.stores.contract import Order, Renewal, WorkerCard
from duly.stores.drive import Operation
from duly.tracing import meter
from duly.version import __version__
from duly.worker.arrival import await_store
from duly.worker.beat import Heartbeat, stop_grace
from duly.worker.bench import Bench
from duly.worker.errand import can_travel
from duly.worker.hand import Halt, Hand, Holding
from duly.worker.lanes import Lanes
from duly.worker.memory import resident_bytes
from duly.worker.outage import Outage
from duly.worker.planner import Planner
from duly.worker.pump import Pump
from duly.worker.relay import Relay
from duly.worker.transaction import Counter

log = logging.getLogger("duly.worker")


class WorkerDied(DulyError):
    """An internal loop of the worker ended by an error; the process must not go on half alive."""


class Worker:
    """Runs an application's tasks until told to stop.

    `async with app.worker():` serves while the block runs, on the caller's loop. Several workers on one
    store share the work; each start has an identity of its own.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        burst: bool = False,
        name: str | None = None,
        grace: Duration | None = None,
        max_jobs: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        self.app = app
        self.concurrency = app.settings.concurrency if concurrency is None else concurrency
        if self.concurrency < 1:
            raise DefinitionError(f"concurrency is {concurrency!r}; it takes a whole number of at least 1.")
        _check_tasks(app)
        self.id = worker_id()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.queues = None if queues is None else frozenset(queues)
        self._burst = burst
        self._grace = app.settings.grace if grace is None else duration(grace, what="grace")
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._has_worn_out = False
        self._failure: BaseException | None = None
        self._has_arrived = False
        self._stopping = threading.Event()
        self._hard_stop = threading.Event()
        self._was_asked = False
        self._asked_at = 0.0
        self._has_moved = False
        self._has_served = False
        self._pump: Pump | None = None
        self._hand = Hand()
        self._beat: Heartbeat | None = None
        self._has_ended = False
        self._relay: Relay | None = None
        self._planner: Planner | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ready: asyncio.Event | None = None

    # the outside

    def stop(self, *, now: bool = False) -> None:
        """Take no more work and finish what runs; with `now`, hand it back at once. Safe from any thread."""
        if now or self._was_asked:
            self._hard_stop.set()
        self._was_asked, self._asked_at = True, time.monotonic()
        self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        self._stopping.set()
        if self._pump is not None:
            self._pump.bell.wake()

    async def serve(self) -> None:
        """Work until stopped, or until idle with burst=True.

        A store that cannot be reached is waited for. Raises what only a person can mend, such as a wrong
        password, and `WorkerDied` if an internal loop dies.
        """
        if self._has_served:
            raise DefinitionError("This worker has served already. Every start needs a worker of its own.")
        self._has_served = True
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        thread = threading.Thread(target=self._run, args=(loop, ended), name="duly-pump", daemon=True)
        thread.start()
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self.stop()
            await ended.wait()
            raise
        finally:
            thread.join(0.1 if not ended.is_set() else None)
        if isinstance(self._failure, DulyError) and not self._has_arrived:
            raise self._failure
        if self._failure is not None:
            raise WorkerDied(f"the worker's loop died: {self._failure!r}") from self._failure

    async def __aenter__(self) -> Worker:
        self._ready = asyncio.Event()
        self._serving = asyncio.create_task(self.serve(), name="duly-worker")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._serving.done():
            await self._serving
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stopping.is_set():  # a second stop would hand back what the first lets finish
            self.stop()
        assert self._serving is not None
        await self._serving

    @property
    def is_healthy(self) -> bool:
        """False when nothing can be claimed."""
        return self._condition() is Health.OK

    def vitals(self) -> Vitals:
        """How it is, for probes and metrics. Safe from any thread; asks nobody."""
        held, condition = self._hand.all(), self._condition()
        is_over = condition in (Health.DEAD, Health.ENDED)
        return Vitals(
            Health.STOPPING if self.is_stopping and not is_over else condition,
            lease_margin=None if self._beat is None else self._beat.margin,
            slots=self.concurrency,
            running=sum(holding.is_running for holding in held),
            held=len(held),
        )

    def _condition(self) -> Health:
        """Whether it could claim, if it were not told to stop."""
        pump, beat = self._pump, self._beat
        if self._failure is not None:
            return Health.DEAD
        if self._has_ended:
            return Health.ENDED
        if pump is None or beat is None:
            return Health.ARRIVING
        if not beat.trusts_lease():
            return Health.FENCED
        is_answered = pump.is_answered(self.app.settings.lease.total_seconds())
        return Health.OK if is_answered else Health.AWAY

    @property
    def is_stopping(self) -> bool:
        """Somebody told it to stop."""
        return self._stopping.is_set()

    @property
    def wants_successor(self) -> bool:
        """It ended by its own limits, not by anybody's word: a new process should take its place."""
        return self._has_worn_out and not self._stopping.is_set()

    # the inside: everything below runs in the pump's thread

    def _run(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        try:
            with self._observed():
                self._serve(loop)
        except BaseException as error:
            self._fail(error)
        finally:
            self._has_ended = True
            loop.call_soon_threadsafe(ended.set)

    def _observed(self) -> AbstractContextManager[None]:
        """Loaded where somebody measures: what an idle worker never uses is half a megabyte."""
        if meter() is None:
            return nullcontext()
        from duly.metrics.otel import observed

        return observed(self.app, self)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        lanes = Lanes(self.app, self.queues)
        hand = self._hand
        beat = self._beat = self._arrive(lanes, hand)
        if beat is None:
            return
        bench = Bench(
            slots=self.concurrency,
            loop=loop,
            counter=Counter(self.app, self.id, renewal=lambda: self._renewal(lanes, hand)),
            trusts_lease=beat.trusts_lease,
            wake=self._wake,
            tell=self._tell,
            fail=self._fail,
            stop_grace=stop_grace(self.app.settings.lease),
        )
        self._pump = pump = Pump(app=self.app, worker=self.id, lanes=lanes, hand=hand, bench=bench, beat=beat)
        beat.on_order = self._on_order
        beat.on_overtaken = self._overtaken
        beat.on_trust = pump.bell.wake
        self._relay = Relay.of(self.app, self._fail)
        try:
            beat.start()
            for aide in self._aides() if not self._burst else ():
                aide.start()
            if self._ready is not None:
                loop.call_soon_threadsafe(self._ready.set)
            pump.run(self._is_over)
            self._drain(pump, bench, hand)
        finally:
            for aide in self._aides():
                aide.close()
            beat.close()
            bench.close(timedelta(seconds=1))
            pump.close()
        self._leave(hand)

    def _aides(self) -> list[Relay | Planner]:
        """Threads beside the pump, each of which it can do without."""
        return [aide for aide in (self._relay, self._planner) if aide is not None]

    def _renewal(self, lanes: Lanes, hand: Hand) -> Operation[Renewal]:
        return self.app.store.renew(self._card(lanes), hand.fences(), self.app.settings.lease)

    def _arrive(self, lanes: Lanes, hand: Hand) -> Heartbeat | None:
        """The first beat opens the store; without one the worker has no lease to claim under."""
        outage = Outage()

        def first_beat() -> Heartbeat:
            beat = Heartbeat(
                store=self.app.store,
                card=self._card(lanes),
                lease=self.app.settings.lease,
                hand=hand,
                fail=self._fail,
                outage=outage,
            )
            planner = Planner.of(self.app, self._fail)
            if planner is not None:
                planner.prepare()
            beat.beat()
            self._planner = planner
            return beat

        beat = await_store(self.app, first_beat, outage, self._stopping)
        self._has_arrived = beat is not None
        return beat

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()

    def _tell(self, holding: Holding, signal: Signal) -> None:
        if self._pump is not None:
            self._pump.tell(holding, signal)

    def _on_order(self, _order: Order, fence: Fence) -> None:
        if self._pump is not None:
            self._pump.release_unstarted(fence)

    def _card(self, lanes: Lanes) -> WorkerCard:
        return WorkerCard(
            id=self.id,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self.app.clock.now(),
            queues=tuple(sorted(self.queues or ())),
            tasks=lanes.tasks,
            slots=self.concurrency,
            version=__version__,
        )

    def _is_over(self) -> bool:
        pump = self._pump
        assert pump is not None
        if self._failure is not None or self._stopping.is_set() or (self._burst and self._has_nothing(pump)):
            return True
        self._has_worn_out = self._is_worn_out(pump)
        return self._has_worn_out

    def _has_nothing(self, pump: Pump) -> bool:
        """Nothing in the store, and in outbox and followed tables nothing that could still get there."""
        for aide in self._aides() if pump.is_idle else ():
            if aide.drain():
                pump.is_idle = False
        return pump.is_idle

    def _is_worn_out(self, pump: Pump) -> bool:
        if self._max_jobs is not None and pump.finished >= self._max_jobs:
            log.info("recycling after %d jobs", pump.finished)
            return True
        if self._max_memory is not None and resident_bytes() > self._max_memory:
            log.info("recycling at %d MB", resident_bytes() // 2**20)
            return True
        return False

    def _drain(self, pump: Pump, bench: Bench, hand: Hand) -> None:
        """No new claims; what runs may finish within the grace, then it is handed back."""
        pump.is_draining = True
        bench.return_all_unstarted("the worker is stopping")
        began = time.monotonic()
        pump.run(
            lambda: self._is_drained(pump, bench) or self._hard_stop.is_set() or self._is_grace_over(began)
        )
        if bench.is_empty and not pump.has_unsettled:
            return
        for holding in hand.all():
            holding.order(Halt.HANDED_BACK)
            if holding.force is not None:
                holding.force()
        last = time.monotonic() + 3.0
        pump.run(lambda: self._is_drained(pump, bench) or time.monotonic() > last)

    def _is_grace_over(self, began: float) -> bool:
        """A move waits for what runs, as long as it takes; somebody who says stop does not."""
        if self._has_moved and not self._was_asked:
            return False
        return time.monotonic() > max(began, self._asked_at) + self._grace.total_seconds()

    def _is_drained(self, pump: Pump, bench: Bench) -> bool:
        return self._failure is not None or (bench.is_empty and not pump.has_unsettled)

    def _leave(self, hand: Hand) -> None:
        """Say good-bye, unless a body is stuck here: then its lease must run out before another starts it."""
        if len(hand):
            log.warning("%d jobs could not be ended; they are lent again when the lease runs out", len(hand))
            return
        try:
            self.app.store.run(self.app.store.leave(self.id))
        except StoreError as error:
            log.warning("could not say good-bye to the store: %s", error)

    def _overtaken(self, error: SchemaMismatch | StoreMoved) -> None:
        """Newer code has migrated the store, or it is being moved: this process is the past."""
        if not self.is_stopping:
            self._has_moved = isinstance(error, StoreMoved)
            reason = "" if self._has_moved else ", newer code has taken over"
            log.warning("this worker drains and ends%s: %s", reason, error)
            self._begin_to_stop()

    def _fail(self, error: BaseException) -> None:
        """Any dead internal loop ends the worker, loudly; a start that is refused says why by itself."""
        if self._failure is None:
            if self._has_arrived or not isinstance(error, DulyError):
                log.critical("an internal loop of the worker died", exc_info=error)
            self._failure = error
        self.stop(now=True)


def _check_tasks(app: App) -> None:
    """A limit that cannot be kept is an error before anything runs, not a surprise in the middle."""
    for task in app.tasks.values():
        app.check_promise(task.options.delivery, task.name)
        if task.reaction is not None:
            check_url(app.settings.url)
        if task.options.needs_process and not can_travel(task):
            raise DefinitionError(
                f"Task {task.name} is defined inside a function, where a child process cannot find it: "
                "hard_limit and executor='process' need a function at the top of a module."
            )
