"""Every store in lockstep with the memory store, under one clock: same answers, same jobs, all invariants.

A failing run prints the steps that led there, as Python. `DULY_EXAMPLES=5000` looks longer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.contract import strategies as some
from tests.contract.arrange import card
from tests.contract.invariants import Watch
from tests.contract.stores import STORES

from duly.job import Claim, Fence, Job, Request, State
from duly.lifecycle import Again, Verdict
from duly.stores.contract import (
    Amendment,
    Ask,
    Claimed,
    Grip,
    Lane,
    Page,
    Renewal,
    Scope,
    Selection,
    Settlement,
    Store,
    Switch,
)
from duly.stores.drive import Operation
from duly.testing import VirtualClock

T = TypeVar("T")

EXAMPLES = int(os.environ.get("DULY_EXAMPLES", "60"))
LEASE = timedelta(seconds=10)
EVERYTHING = Page(limit=10_000, with_history=True)


class Loan(NamedTuple):
    """One claim as the two stores lent it: equal but for the secret."""

    id: str
    reference: Fence
    subject: Fence


class Grips(NamedTuple):
    """One lock as the two stores gave it."""

    reference: Grip
    subject: Grip


class Lockstep(RuleBasedStateMachine):
    """Asks the memory store and another the same questions and compares."""

    make_subject: ClassVar[Callable[[Path, VirtualClock], Store]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.folder = tempfile.TemporaryDirectory()
        self.reference = STORES["memory"](Path(self.folder.name), self.clock)
        self.subject = type(self).make_subject(Path(self.folder.name), self.clock)
        self.reference.open()
        self.subject.open()
        self.watch = Watch()
        self.requested: dict[str, Request] = {}
        self.jobs: dict[str, Job] = {}

    def teardown(self) -> None:
        self.subject.close()
        self.reference.close()
        self.folder.cleanup()

    loans = Bundle("loans")
    grips = Bundle("grips")

    # asking both

    def both(self, ask: Callable[[Store], Operation[T]]) -> tuple[T, T]:
        return self.reference.run(ask(self.reference)), self.subject.run(ask(self.subject))

    def same(self, ask: Callable[[Store], Operation[T]]) -> T:
        expected, answered = self.both(ask)
        assert answered == expected
        return answered

    def named(self, wanted: Iterable[Request]) -> list[Request]:
        """Give each request an id of its own."""
        made = [
            replace(one, id=f"j{number}") for number, one in enumerate(wanted, start=len(self.requested) + 1)
        ]
        self.requested |= {one.id: one for one in made}
        return made

    def borrowed(self, expected: Claimed, answered: Claimed) -> MultipleResults[Loan]:
        """Compare two claims modulo their secrets, and keep the loans for later steps."""
        assert [_shown(one) for one in answered.claims] == [_shown(one) for one in expected.claims]
        assert _to_millisecond(answered.next_at) == _to_millisecond(expected.next_at)
        for lent in answered.claims:
            self.was_free_to_go(lent)
        pairs = zip(expected.claims, answered.claims, strict=True)
        return multiple(*(Loan(one.id, one.fence, other.fence) for one, other in pairs))

    def was_free_to_go(self, lent: Claim) -> None:
        before = self.jobs.get(lent.id)
        if before is None:
            return
        assert before.superseded_by is None, f"{lent.id} was superseded and lent"
        if before.state is State.WAITING:
            assert before.ready_at is not None
            assert before.ready_at <= self.clock.now(), f"{lent.id} was lent early"

    # requests

    @rule(wanted=st.lists(some.requests, min_size=1, max_size=3))
    def put(self, wanted: list[Request]) -> None:
        made = self.named(wanted)
        self.same(lambda store: store.put(made))

    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        if self.requested:
            known = self.requested[data.draw(st.sampled_from(sorted(self.requested)))]
            self.same(lambda store: store.put([known]))

    # workers

    @rule(
        target=loans,
        worker=st.sampled_from(some.WORKERS),
        lanes=st.just(some.LANES) | some.lanes,
        limit=st.sampled_from([1, 2, 10, 10]),
        free=st.integers(0, 3),
        queues=st.sampled_from([None, None, frozenset({"io"})]),
        takes_over=st.sampled_from([True, True, True, False]),
    )
    def claim(
        self,
        worker: str,
        lanes: dict[str, Lane],
        limit: int,
        free: int,
        queues: frozenset[str] | None,
        takes_over: bool,
    ) -> MultipleResults[Loan]:
        ask = Ask(worker, lanes, LEASE, limit, min(free, limit), queues, takes_over)
        return self.borrowed(*self.both(lambda store: store.claim(ask)))

    @rule(loan=loans, isolated=st.booleans())
    def begin(self, loan: Loan, isolated: bool) -> None:
        expected = self.reference.run(self.reference.begin([loan.reference], isolated=isolated))
        answered = self.subject.run(self.subject.begin([loan.subject], isolated=isolated))
        assert bool(answered) == bool(expected)

    @rule(worker=st.sampled_from(some.WORKERS), held=st.lists(loans, max_size=4))
    def renew(self, worker: str, held: list[Loan]) -> None:
        expected = self.reference.run(
            self.reference.renew(card(worker), [loan.reference for loan in held], LEASE)
        )
        answered = self.subject.run(self.subject.renew(card(worker), [loan.subject for loan in held], LEASE))
        assert _outcome(answered) == _outcome(expected)

    @rule(loan=loans, text=st.sampled_from(["10 %", "20 %"]))
    def report(self, loan: Loan, text: str) -> None:
        self.reference.run(self.reference.report({loan.reference: text}))
        self.subject.run(self.subject.report({loan.subject: text}))

    @rule(worker=st.sampled_from(some.WORKERS))
    def leave(self, worker: str) -> None:
        self.same(lambda store: store.leave(worker))

    # ends

    def settlement(self, verdict: Verdict, then: Sequence[Request], loan: Loan, fence: Fence) -> Settlement:
        if isinstance(verdict, Again) and verdict.after > timedelta(seconds=60):
            verdict = Again(at=self.clock.now() + verdict.after, error=verdict.error)
        is_new = isinstance(verdict, Again) and verdict.at is not None
        arguments = "[[9],{}]" if is_new else None
        return Settlement(fence, verdict, self.clock.now(), tuple(then), arguments)

    def follow_ups(self, loan: Loan, wanted: Sequence[Request], own: Request | None) -> list[Request]:
        made = list(wanted)
        if own is not None:
            first = self.requested[loan.id]
            made.append(replace(own, task=first.task, key=first.key, serial=first.serial))
            made[-1] = replace(made[-1], per_key=first.per_key)
        return self.named(made)

    @rule(
        loan=loans,
        verdict=some.verdicts,
        wanted=st.lists(some.requests, max_size=1),
        own=st.none() | st.none() | some.keyed(),
    )
    def settle(self, loan: Loan, verdict: Verdict, wanted: list[Request], own: Request | None) -> None:
        then = self.follow_ups(loan, wanted, own)
        one = self.settlement(verdict, then, loan, loan.reference)
        other = self.settlement(verdict, then, loan, loan.subject)
        expected = self.reference.run(self.reference.settle("w1", [one]))
        assert self.subject.run(self.subject.settle("w1", [other])) == expected

    @rule(
        target=loans,
        ended=st.lists(st.tuples(loans, some.verdicts), max_size=3),
        worker=st.sampled_from(some.WORKERS),
        limit=st.sampled_from([0, 1, 10]),
    )
    def turn(self, ended: list[tuple[Loan, Verdict]], worker: str, limit: int) -> MultipleResults[Loan]:
        ask = Ask(worker, some.LANES, LEASE, limit, limit)
        first = [self.settlement(verdict, (), loan, loan.reference) for loan, verdict in ended]
        second = [self.settlement(verdict, (), loan, loan.subject) for loan, verdict in ended]
        expected = self.reference.run(self.reference.turn(first, ask))
        answered = self.subject.run(self.subject.turn(second, ask))
        assert answered.answers == expected.answers
        self.jobs = {}  # what the settles freed was not to be seen before
        return self.borrowed(expected.claimed, answered.claimed)

    # operators

    @rule(selection=some.selections, order=some.orders, limit=st.sampled_from([1, 2, 1000]))
    def amend(self, selection: Selection, order: Amendment, limit: int) -> None:
        self.same(lambda store: store.amend(selection, order, by="anna", limit=limit))

    @rule(data=st.data(), order=some.orders)
    def amend_one(self, data: st.DataObject, order: Amendment) -> None:
        if self.jobs:
            one = Selection(ids=(data.draw(st.sampled_from(sorted(self.jobs))),))
            self.same(lambda store: store.amend(one, order))

    @rule(limit=st.sampled_from([1, 100]))
    def prune(self, limit: int) -> None:
        self.same(lambda store: store.prune(limit))

    @rule(name=some.switch_names, until=st.none() | some.waits)
    def hold(self, name: tuple[Scope, str], until: timedelta | None) -> None:
        switch = Switch(*name, None if until is None else self.clock.now() + until, "because")
        self.same(lambda store: store.hold(switch))

    @rule(name=some.switch_names)
    def free(self, name: tuple[Scope, str]) -> None:
        is_held = any((switch.scope, switch.name) == name for switch in self.same(lambda s: s.switches()))
        expected, answered = self.both(lambda store: store.free(*name))
        assert not is_held or (expected and answered)

    # locks

    @rule(target=grips, name=st.sampled_from("pq"), owner=st.sampled_from(some.WORKERS))
    def grip(self, name: str, owner: str) -> MultipleResults[Grips]:
        expected, answered = self.both(lambda store: store.grip(name, owner, LEASE))
        assert (expected is None) == (answered is None)
        return multiple(Grips(expected, answered)) if expected and answered else multiple()

    @rule(grip=grips)
    def keep_grip(self, grip: Grips) -> None:
        expected = self.reference.run(self.reference.keep_grip(grip.reference, LEASE))
        assert self.subject.run(self.subject.keep_grip(grip.subject, LEASE)) == expected

    @rule(grip=consumes(grips))
    def let_go(self, grip: Grips) -> None:
        expected = self.reference.run(self.reference.let_go(grip.reference))
        assert self.subject.run(self.subject.let_go(grip.subject)) == expected

    # time

    @rule(span=some.seconds(0.001, 1, 2.5, 5, 10, 31))
    def advance(self, span: timedelta) -> None:
        self.clock.advance(span)

    @rule(by=some.seconds(-3600, -7, 7, 3600))
    def step_wall(self, by: timedelta) -> None:
        self.clock.step_wall(by)

    # what must hold

    @invariant()
    def stores_agree_and_rules_hold(self) -> None:
        expected, seen = self.both(lambda store: store.find(Selection(), EVERYTHING))
        assert [_rounded(job) for job in seen] == [_rounded(job) for job in expected]
        self.jobs = {job.id: job for job in seen}
        self.same(lambda store: store.census())
        self.same(lambda store: store.switches())
        assert _ids(self.subject) == _ids(self.reference)
        self.watch.look(self.jobs.values(), self.clock.now(), some.LIMITS)

    @rule(data=st.data())
    def explain(self, data: st.DataObject) -> None:
        if self.jobs:
            job_id = data.draw(st.sampled_from(sorted(self.jobs)))
            expected, answered = self.both(lambda store: store.explain(job_id))
            assert expected is not None
            assert answered is not None
            assert [line[:2] for line in answered.conditions] == [line[:2] for line in expected.conditions]


def _shown(lent: Claim) -> Claim:
    return lent._replace(nonce="")


def _rounded(job: Job) -> Job:
    """Leases are kept in seconds of boot time; what they mean on the wall may differ by a rounding."""
    return replace(job, ready_at=_to_millisecond(job.ready_at)) if job.state is State.RUNNING else job


def _to_millisecond(at: datetime | None) -> datetime | None:
    if at is None:
        return None
    nearest = at + timedelta(microseconds=500)
    return nearest.replace(microsecond=nearest.microsecond // 1000 * 1000)


def _outcome(renewal: Renewal) -> tuple[set[tuple[str, int]], dict[tuple[str, int], Any]]:
    lost = {fence[:2] for fence in renewal.lost}
    return lost, {fence[:2]: order for fence, order in renewal.orders.items()}


def _ids(store: Store) -> set[str]:
    return {shown.id for shown, _ in store.run(store.workers())}


@pytest.mark.timeout(0 if EXAMPLES > 100 else 60)
@pytest.mark.parametrize("name", list(STORES))
def test_the_store_walks_in_step_with_the_memory_store(name: str) -> None:
    machine = type(f"Lockstep{name.title()}", (Lockstep,), {"make_subject": staticmethod(STORES[name])})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            print_blob=True,
        ),
    )
