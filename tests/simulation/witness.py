"""The witness: sees every operation in the order in which it takes effect, and every step of every body.

It keeps its own books from the calls alone, and objects at the first thing that must not be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.simulation.link import Call
from tests.simulation.stage import Process, Stage

from duly.job import Claim, Fence, Job, Request, State
from duly.lifecycle import Done, Fail, Settled, Skip, Stop
from duly.run import Run
from duly.stores.contract import (
    Amended,
    Claimed,
    Placed,
    Renewal,
    Settlement,
    Turned,
    WorkerCard,
)

ENDS: Final = (Done, Fail, Skip, Stop)
MOMENT: Final = 1e-6


class Loan(NamedTuple):
    """A claim that is out."""

    worker: str
    claim: Claim
    since: float


class Limits(NamedTuple):
    """What a task declares, as the witness was told."""

    concurrency: int | None = None
    attempts: int = 1
    once: bool = False
    has_body: bool = True


class Violation(AssertionError):
    """Something that must not be, with what led to it."""


class Witness:
    """The books."""

    def __init__(self, stage: Stage, limits: dict[str, Limits]) -> None:
        self._stage = stage
        self._limits = limits
        self.leases: dict[str, float] = {}
        self.loans: dict[str, Loan] = {}
        self.epochs: dict[str, int] = {}
        self.ended: dict[str, Fence] = {}
        self.due: dict[str, datetime] = {}
        self.floors: dict[tuple[str, str], int] = {}
        self.forbidden: set[str] = set()
        self.starts: Counter[str] = Counter()
        self.begun: set[Fence] = set()
        self.returned: set[Fence] = set()
        self.accepted: Counter[str] = Counter()
        self.refused = 0
        self.runs = 0
        self.takeovers = 0
        self.requested: set[str] = set()
        self.trail: list[str] = []

    # what the store does

    def saw(self, process: Process, call: Call, value: Any) -> None:
        """An operation took effect."""
        note: Callable[..., None] | None = getattr(self, f"_{call.name}", None)
        if note is not None:
            note(*call.args, value)

    def _put(self, requests: list[Request], placed: list[Placed]) -> None:
        for request, answer in zip(requests, placed, strict=True):
            self.requested.add(request.id)
            if request.delay is not None and answer.id == request.id:
                self.due[request.id] = self._stage.clock.now() + request.delay

    def _renew(self, card: WorkerCard, fences: list[Fence], lease: timedelta, renewal: Renewal) -> None:
        for fence in renewal.lost:  # somebody looked while the lease was over, and made it ready again
            loan = self.loans.get(fence.id)
            if loan is not None and loan.claim.fence == fence:
                self._demand(not self._holds(card.id), "a valid lease was ended", loan)
                del self.loans[fence.id]
        if not self._holds(card.id):
            self._forget_unheard(card.id, fences)
        self.leases[card.id] = self._stage.now + lease.total_seconds()

    def _forget_unheard(self, worker: str, known: list[Fence]) -> None:
        """Loans whose answer was lost came free while the lease was over: the next one is not theirs.

        Not so one that was made since: its answer is still on its way.
        """
        ended = self.leases.get(worker, 0.0)
        for job, loan in list(self.loans.items()):
            if loan.worker == worker and loan.claim.fence not in known and loan.since <= ended:
                del self.loans[job]

    def _leave(self, worker: str, _: None) -> None:
        self.leases.pop(worker, None)

    def _claim(self, ask: Any, claimed: Claimed) -> None:
        for claim in claimed.claims:
            self._lent(ask.worker, claim)

    def _turn(self, settlements: list[Settlement], ask: Any, turned: Turned) -> None:
        self._settle(ask.worker, settlements, turned.answers)
        self._claim(ask, turned.claimed)

    def _begin(self, fences: list[Fence], isolated: bool, once: bool, begun: frozenset[Fence]) -> None:
        self.begun |= begun

    def _disown(self, worker: str, held: list[Fence], _: int) -> None:
        for job, loan in list(self.loans.items()):
            if loan.worker == worker and loan.claim.fence not in held:
                del self.loans[job]

    def _settle(self, worker: str, settlements: list[Settlement], answers: list[Settled]) -> None:
        for settlement, answer in zip(settlements, answers, strict=True):
            self._settled(settlement, answer)

    def _amend(self, *args: Any) -> None:
        answers: list[Amended] = args[-1]
        self._write("amended", [tuple(answer) for answer in answers])

    # what must hold

    def _lent(self, worker: str, claim: Claim) -> None:
        self._write("lent", claim.id, claim.epoch, worker)
        self._demand(claim.epoch > self.epochs.get(claim.id, 0), "EpochMonotone", claim)
        before = self.loans.get(claim.id)
        if before is not None:
            self.takeovers += 1
            self._demand(not self._holds(before.worker), "two valid leases on one job", before, claim)
        self._demand(claim.id not in self.ended, "TerminalIsFinal", claim)
        self._demand(claim.id not in self.forbidden, "CancelFinal", claim)
        if claim.id in self.due:
            self._demand(self._stage.clock.now() >= self.due[claim.id], "NeverEarly", claim)
        if claim.key is not None:
            floor = self.floors.get((claim.task, claim.key), 0)
            self._demand(claim.generation >= floor, "OlderNeverClaimed", claim, floor)
        self.epochs[claim.id] = claim.epoch
        self.loans[claim.id] = Loan(worker, claim, self._stage.now)
        self._count_valid(claim)

    def _count_valid(self, claim: Claim) -> None:
        valid = [loan.claim for loan in self.loans.values() if self._holds(loan.worker)]
        limit = self._limits[claim.task].concurrency if claim.task in self._limits else None
        of_task = [other for other in valid if other.task == claim.task]
        self._demand(limit is None or len(of_task) <= limit, "ConcurrencyLimit", *of_task)
        of_key = [other for other in of_task if claim.key is not None and other.key == claim.key]
        self._demand(len(of_key) <= 1, "NoOverlap", *of_key)

    def _settled(self, settlement: Settlement, answer: Settled) -> None:
        fence = settlement.fence
        loan = self.loans.get(fence.id)
        self._write("settled", fence, type(settlement.verdict).__name__, answer)
        if answer is not Settled.SETTLED:
            self.refused += answer is not Settled.BUSY
            if loan is not None and loan.claim.fence == fence and answer is not Settled.BUSY:
                del self.loans[fence.id]
            return
        if self.ended.get(fence.id) == fence:
            return  # asked again because the answer was lost
        self._demand(self.epochs.get(fence.id) == fence.epoch, "Fencing", fence)
        self._demand(fence.id not in self.ended, "TerminalIsFinal", fence)
        if loan is not None:
            self._demand(loan.claim.fence == fence, "Fencing", fence, loan)
            self._judge(loan.claim, settlement)
            del self.loans[fence.id]

    def _judge(self, claim: Claim, settlement: Settlement) -> None:
        limits = self._limits.get(claim.task)
        if isinstance(settlement.verdict, ENDS):
            self.ended[claim.id] = settlement.fence
        if limits is not None and limits.has_body and isinstance(settlement.verdict, Done):
            self._demand(settlement.fence in self.returned, "a job is done that nobody did", claim)
            self.accepted[claim.id] += 1

    # what bodies do

    def started(self, run: Run) -> Fence:
        """A body begins."""
        self.runs += 1
        self.starts[run.id] += 1
        loan = self.loans.get(run.id)
        self._write("started", run.id, run.epoch, self._stage.current.process.name)
        fence = run._claim.fence  # pyright: ignore[reportPrivateUsage]
        limits = self._limits[run.task]
        self._demand(not limits.once or self.starts[run.id] == 1, "AtMostOnceStart", run.id)
        self._demand(not limits.once or fence in self.begun, "its start was not on record", fence)
        self._demand(run.id in self.requested or loan is not None, "NoPhantom", run.id)
        self._demand(run.attempt <= limits.attempts, "RetryPolicy", run.id, run.attempt)
        return fence

    def goes_on(self, run: Run) -> None:
        """A body takes another step: if its lease is over it must have been told, unless it was frozen."""
        process = self._stage.current.process
        loan = self.loans.get(run.id)
        if loan is None or loan.claim.epoch != run.epoch:
            return
        is_over = self._stage.now > self.leases.get(loan.worker, 0.0) + MOMENT
        just_woke = self._stage.now <= process.woke_at + 0.05
        self._demand(not is_over or run.cancelled or just_woke, "SelfFence", run.id, run.epoch)

    def finished(self, fence: Fence) -> None:
        """A body returned."""
        self.returned.add(fence)

    # what people were told

    def replaced(self, task: str, key: str, generation: int) -> None:
        """A replace or cancel was acknowledged: nothing older starts from now on."""
        floor = self.floors.get((task, key), 0)
        self._demand(generation > floor, "GenMonotone", task, key, generation, floor)
        self.floors[task, key] = generation

    def cancelled(self, job: str) -> None:
        """The cancel of a waiting job was acknowledged."""
        self.forbidden.add(job)

    # the end

    def check_end(self, jobs: list[Job], promised: dict[str, str], perpetuals: list[str]) -> None:
        """Everything is quiet: what was promised is so."""
        found = {job.id: job for job in jobs}
        for job_id, task in promised.items():
            job = found.get(job_id)
            self._demand(job is not None, "NoLoss: it vanished", job_id, task)
            assert job is not None
            self._demand(job.finished_at is not None, "NoLoss: it never ended", job_id, job.state, job.reason)
            if job.state is State.DONE and self._limits[task].has_body:
                self._demand(self.accepted[job_id] == 1, "NoLoss: done without a run", job_id)
        for task in perpetuals:
            live = [job for job in jobs if job.task == task and job.finished_at is None]
            self._demand(len(live) == 1, "PerpetualAlive", task, len(live))

    def check_ticks(self, jobs: list[Job], task: str, step: timedelta) -> None:
        """Every instant once, none left out."""
        ticks = sorted(job.tick for job in jobs if job.task == task and job.tick is not None)
        self._demand(len(ticks) > 3, "the schedule stands still", ticks)
        for earlier, later in pairwise(ticks):
            self._demand(later - earlier == step, "OneTick, TickComplete", earlier, later)

    # writing

    def _holds(self, worker: str) -> bool:
        return self.leases.get(worker, 0.0) > self._stage.now

    def _write(self, *words: Any) -> None:
        self.trail.append(f"{self._stage.now:9.4f} " + " ".join(map(str, words)))

    def _demand(self, holds: bool, law: str, *about: Any) -> None:
        if not holds:
            last = "\n".join(self.trail[-40:])
            shown = json.dumps([str(value) for value in about], indent=1)
            violation = Violation(f"{law} at {self._stage.now:.4f}\n{shown}\n{last}")
            self._stage.failures.append(violation)  # whoever is at work here may catch what is raised
            raise violation
