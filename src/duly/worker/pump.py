"""The pump: one thread that talks to the store — settle what ended, claim what fits, in one turn.

While it is away at the store, ends pile up behind it; so batches grow with the load by themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import compress
from typing import cast

from duly import failpoints
from duly.app import App
from duly.errors import StoreError, StoreMoved
from duly.ids import spread
from duly.job import Fence
from duly.kinds import periodic
from duly.lifecycle import Settled
from duly.signals import Signal
from duly.stores.contract import Ask, Claimed, Settlement
from duly.worker.beat import Heartbeat
from duly.worker.bench import EVERY, Bench
from duly.worker.chores import Chores
from duly.worker.doubts import sort_out
from duly.worker.endings import Concluded, settle_alone
from duly.worker.foresight import Foresight
from duly.worker.hand import Hand, Holding
from duly.worker.hearing import Hearing
from duly.worker.isolation import kind_of_start
from duly.worker.lanes import Lanes
from duly.worker.loans import Loans
from duly.worker.outage import backoff
from duly.worker.rota import Rota
from duly.worker.stock import LINGER, Stock
from duly.worker.tempo import ENOUGH
from duly.worker.tidings import Tidings
from duly.worker.turns import take_turns

log = logging.getLogger("duly.worker")

BUSY_PAUSE = timedelta(milliseconds=20)
"""Before asking again about rows that somebody's transaction holds."""


class Pump:
    """Moves claims from the store to the bench and verdicts back."""

    def __init__(
        self, *, app: App, worker: str, lanes: Lanes, hand: Hand, bench: Bench, beat: Heartbeat
    ) -> None:
        self._app = app
        self._store = app.store
        self._worker = worker
        self._lanes = lanes
        self._rota = Rota(lanes)
        self._hand = hand
        self._bench = bench
        self._beat = beat
        self.bell = self._store.doorbell()
        self._is_waiting = False
        self._is_listening = False
        """Waiting, and nobody has rung yet."""
        self._has_served_itself = False
        """Runs come in that settled themselves. What is left to do about them waits for company: waking for
        each took a quarter of the processor time of an exactly-once job."""
        self._stock = Stock(bench)
        self._turned_at = time.monotonic()
        self._unsettled: list[Concluded | Settlement] = []
        self._mishap: Exception | None = None
        """What went wrong while the store was at work."""
        self._doubtful: list[Concluded] = []
        self._era = beat.era
        """From before the last claim was asked for."""
        self._asked_for_schedules = False
        self._loans = Loans(app.tasks, hand, bench, beat)
        self._foresight = Foresight(app.store, bench)
        self._look_at = 0.0
        self._chores = Chores(app, worker)
        self._tidings = Tidings(app, hand, self._chores.tally, bench.call_aside)
        self._hearing = Hearing(app, lanes, bench)
        self._is_unsure = False
        """A call failed half way: the store may believe we hold claims we never received."""
        self.is_draining = False
        self.is_idle = False
        """The last look found nothing to do and nothing is in hand."""

    def close(self) -> None:
        """Nothing more will come of it."""
        self._tidings.count()
        self._chores.tally.write_last()
        self._foresight.close()
        self.bell.close()

    @property
    def finished(self) -> int:
        """Runs that ended here, for recycling."""
        return self._tidings.finished

    # what other threads call

    def tell(self, holding: Holding, signal: Signal) -> None:
        """Progress or a throttle from a running body."""
        self._hearing.take(holding, signal)
        self.wake()

    def wake(self) -> None:
        """Something ended or must begin. A pump at work sees it by itself; ringing is a system call."""
        if self._is_listening:
            self._is_listening = False
            self.bell.wake()

    def is_answered(self, patience: float) -> bool:
        """False while calls to the store fail, or one of them takes longer than that many seconds."""
        return not self._is_unsure and (self._is_waiting or time.monotonic() < self._turned_at + patience)

    # the loop

    def run(self, is_over: Callable[[], bool]) -> None:
        """Turn until told to stop; a store that is away is waited for, calmly."""
        failures = 0
        while not is_over():
            self._turned_at = time.monotonic()
            try:
                self.turn()
            except StoreError as error:
                self._is_unsure = True
                self._loans.start()  # in hand, or they would be handed back below
                if isinstance(error, StoreMoved):
                    self._beat.on_overtaken(error)
                else:
                    self._beat.outage.noted(error)
                self.bell.wait(timedelta(seconds=backoff(failures, spread())))
                failures += 1
            else:
                if failures:
                    self._beat.outage.over()
                    self._beat.hurry()
                failures = 0
        self._loans.unpack()

    def turn(self) -> None:
        """One round: begin, pass on what was said, settle and claim, then wait if there was nothing to do."""
        if self._mishap is not None:
            raise self._mishap
        if self._is_unsure:
            held = [*self._hand.fences(), *map(_fence, self._unsettled)]
            self._store.run(self._store.disown(self._worker, held))
            self._is_unsure = False
        self._tidings.look_who_listens()
        if self._bench.has_to_begin or self._hearing.has_something_to_send:
            self._loans.start()  # nothing stays packed while the store is asked about something else
        self._begin()
        self._hearing.send()
        self._take_in(self._foresight.fetch(), time.monotonic())
        if self._is_time():
            self._exchange()
        else:
            self._meanwhile()
            self._rest()
        self._keep_house()  # after the settle: what cannot be swept must not hold up what has ended

    def _is_time(self) -> bool:
        """Whether to go to the store now. What has ended waits for company while there is enough to run."""
        now = time.monotonic()
        if not self._unsettled:
            return self._wants_more and now >= self._look_at
        is_enough = len(self._unsettled) >= ENOUGH
        return is_enough or not self._stock.is_ample or now >= self._stock.lasts_until

    def _take_in(self, concluded: list[Concluded], now: float) -> None:
        """Most ends are still to be settled; some runs have done it themselves, and of some nobody knows."""
        self._stock.note(len(concluded), now, is_first=not self._unsettled)
        served = [item for item in concluded if item.answer is not None]
        self._has_served_itself = bool(served)
        if served:
            self._have_settled(served, [cast(Settled, item.answer) for item in served])
        for item in concluded:
            if item.meant is not None:
                self._doubtful.append(item)
            elif item.answer is None:
                self._unsettled.append(item)
        if self._doubtful:
            self._loans.start()
            self._sort_out()

    def _have_settled(self, items: list[Concluded], answers: list[Settled]) -> None:
        """Together: to count them one by one took a tenth of an exactly-once job."""
        self._tidings.tell(items, answers, time.monotonic())
        self._look_at = 0.0  # their slots are free

    def _sort_out(self) -> None:
        found = sort_out(self._store, self._doubtful)
        self._doubtful = []
        self._unsettled.extend(found.others)
        if found.settled:
            self._have_settled(found.settled, [Settled.SETTLED] * len(found.settled))

    def _rest(self) -> None:
        """Wait for the bell or the next moment of our own. The flag goes up before the last look around."""
        self._bench.low = self._stock.low if self._unsettled or self._has_served_itself else EVERY
        self._is_waiting = self._is_listening = True
        try:
            is_needed = self._unsettled and not self._stock.is_ample
            if is_needed or self._bench.has_news or self._hearing.has_news:
                return
            if self.bell.wait(timedelta(seconds=max(0.0, self._wait()))):
                self._look_at = 0.0
        finally:
            self._is_waiting = self._is_listening = False

    def _wait(self) -> float:
        """Until the next look, or without end when nothing could be taken anyway; the bell wakes us."""
        now = time.monotonic()
        pause = 0.1 if self.is_draining else 1.0  # a grace that ends rings no bell
        if self._unsettled:
            next_look = self._stock.lasts_until
        else:
            pause = LINGER if self._has_served_itself else pause
            next_look = self._look_at if self._wants_more else now + pause
        return min(next_look, self._chores.next_at) - now

    def _room(self) -> int:
        return 0 if self.is_draining else self._stock.room

    @property
    def _can_take(self) -> bool:
        """A slot is free, or there are schedules: these need none, and tick however busy the slots are.

        Not without a lease: what was claimed then could only be handed back.
        """
        is_fit = not self.is_draining and self._beat.trusts_lease()
        return is_fit and (self._room() > 0 or self._lanes.has_schedules)

    @property
    def _wants_more(self) -> bool:
        """Whether to claim without having anything to settle: not for every single place in the buffer."""
        is_low = self._bench.free > 0 or not self._stock.is_ample
        return self._can_take and (is_low or self._lanes.has_schedules)

    # settle and claim

    def _exchange(self) -> None:
        settlements = self._foresight.settlements_of(self._unsettled)
        claimed: Claimed | None = None
        self._reach("before_settle")
        try:
            answers, claimed = self._talk(settlements)
        except Exception as error:
            if isinstance(error, StoreError) or not settlements:
                raise
            log.exception("a batch of ends could not be stored; each is tried alone")
            answers = [settle_alone(self._store, self._worker, settlement) for settlement in settlements]
        self._reach("after_settle")
        self._try_next(self._moments())  # where the store could not say when: nothing waits for a second turn
        self._after_settle(settlements, answers)
        if claimed is not None:
            self._after_claim(claimed, had_settled=bool(settlements))

    def _talk(self, settlements: list[Settlement]) -> tuple[list[Settled], Claimed | None]:
        if self._can_take:
            self._era = self._beat.era
            turn = self._store.turn(settlements, self._ask())
            return self._store.run(replace(turn, meanwhile=partial(self._try_next, self._moments())))
        if not settlements:
            return [], None
        settle = self._store.settle(self._worker, settlements)
        return self._store.run(replace(settle, meanwhile=partial(self._try_next, self._moments()))), None

    def _try_next(self, moments: Iterator[bool]) -> bool:
        """A conversation is not torn by what goes wrong beside it; the next turn ends with that.

        Else its ends would be taken for ones that no store takes, and a claim that did not start be kept.
        """
        try:
            return next(moments, False)
        except Exception as error:
            self._mishap = error
            return False

    def _moments(self) -> Iterator[bool]:
        """What to do in one moment after the other, and whether it is worth waiting for another one."""
        self._meanwhile()
        if len(self._unsettled) >= ENOUGH:  # where ends come in batches, another is on its way
            yield from self._foresight.looks()

    def _meanwhile(self) -> None:
        """While the store is at work: start what was lent the last time, count what was settled.

        Not before: it would wait for us, and for each start, since threads of one interpreter take turns.
        """
        self._loans.start()
        self._tidings.count()

    def _reach(self, point: str) -> None:
        """The ends in hand pass a named point together: they are one batch."""
        if failpoints.armed is not None:
            for item in self._unsettled:
                if isinstance(item, Concluded):
                    failpoints.reached(point, item.holding.claim.task)

    def _ask(self) -> Ask:
        now = time.monotonic()
        lanes, limit = self._rota.next(self._room(), now)
        self._asked_for_schedules = any([lane.on_any_queue for lane in lanes.values()])  # noqa: C419  as below
        return Ask(
            worker=self._worker,
            lanes=lanes,
            lease=self._app.settings.lease,
            limit=limit,
            free=self._bench.free,
            queues=self._lanes.queues,
            takes_over=self._beat.may_take_over(now),
        )

    def _after_settle(self, settlements: list[Settlement], answers: list[Settled]) -> None:
        ended, self._unsettled = self._unsettled, []
        if Settled.BUSY in answers:
            is_busy = [answer is Settled.BUSY for answer in answers]
            is_heard = [not busy for busy in is_busy]
            self._unsettled = [*compress(ended, is_busy)]
            ended, settlements = [*compress(ended, is_heard)], [*compress(settlements, is_heard)]
            answers = [*compress(answers, is_heard)]
        self._tidings.tell(ended, answers, time.monotonic())
        if any([settlement.then for settlement in settlements]):  # noqa: C419  a generator costs more
            self._store.ring()
        if self._unsettled:
            self.bell.wait(BUSY_PAUSE)

    def _after_claim(self, claimed: Claimed, *, had_settled: bool) -> None:
        taken = time.monotonic()
        self._chores.tally.set_clock(claimed.now, taken)
        schedules = 0
        if self._asked_for_schedules:  # else nobody looks at the claims before they are unpacked
            schedules = sum([claim.queue == periodic.QUEUE for claim in claimed.claims])
        bodies = len(claimed.claims) - schedules
        self._loans.arrive(claimed, taken=taken, era=self._era, bodies=bodies)
        if schedules:
            self._loans.start()
            self._unsettled.extend(take_turns(self._app, claimed))
        was_all = self._rota.note(bodies=bodies, schedules=schedules)
        was_empty = was_all and not claimed.claims and not had_settled
        self.is_idle = was_empty and self._bench.is_empty and not self.has_unsettled
        # While bodies run nobody waits to hear that all is done, so the store's word is enough: a second look
        # after each pick-up would find what comes next no sooner, and take the processor from the body.
        is_known = was_empty or (was_all and bodies > 0 and not self.has_unsettled)
        self._look_at = time.monotonic() + (self._pause(claimed) if is_known else 0.0)
        self._take_in(self._foresight.fetch(), time.monotonic())
        if not self._is_time():
            self._loans.start()

    def _pause(self, claimed: Claimed) -> float:
        """Until something may be due, by the store's clock, or until the next look of our own accord."""
        poll = self._app.settings.poll.total_seconds() * (0.75 + spread() / 2)
        if claimed.next_at is None:
            return poll
        now = claimed.now or self._app.clock.now()
        return min(poll, max(0.0, (claimed.next_at - now).total_seconds()))

    # beginning

    def _begin(self) -> None:
        """Record starts, then start. Recording is idempotent, so a lost answer is simply asked for again."""
        waiting = self._bench.take_to_begin()
        while waiting:
            kind = kind_of_start(waiting[0])
            part = [holding for holding in waiting if kind_of_start(holding) == kind]
            fences = [holding.claim.fence for holding in part]
            try:
                begun = self._store.run(self._store.begin(fences, isolated=kind.isolated, once=kind.once))
            except StoreError:
                self._bench.begin_later(waiting)
                raise
            waiting = [holding for holding in waiting if holding not in part]
            for holding in part:
                self._bench.begin(holding, is_recorded=holding.claim.fence in begun)

    # housekeeping

    def _keep_house(self) -> None:
        if time.monotonic() >= self._chores.next_at:
            self._loans.start()  # what was lent does not wait for it
        if self._chores.finish_due(is_draining=self.is_draining):
            self._look_at, self.is_idle = 0.0, False

    def release_unstarted(self, fence: Fence) -> None:
        """Superseded or cancelled before it started: hand it back, so that the newer one may start."""
        holding = self._hand.get(fence)
        if holding is not None:
            self._bench.return_unstarted(
                lambda other: other is holding, "superseded or cancelled before it started"
            )

    @property
    def has_unsettled(self) -> bool:
        """Ends the store has not heard of."""
        return bool(self._unsettled or self._doubtful) or not self._foresight.is_empty


def _fence(item: Concluded | Settlement) -> Fence:
    return item.fence if isinstance(item, Settlement) else item.holding.fence
