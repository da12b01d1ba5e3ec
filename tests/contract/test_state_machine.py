"""Every store in lockstep with the memory store, under one clock: same answers, same jobs, all invariants.

A failing run prints the steps that led there, as Python. `DULY_EXAMPLES=5000` looks longer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.contract import strategies as some
from tests.contract.arrange import card
from tests.contract.invariants import Watch
from tests.contract.stores import STORES
from tests.contract.strategies import LEASE

from duly.job import Claim, Fence, Job, Request, State
from duly.lifecycle import Verdict
from duly.stores.contract import (
    Amendment,
    Ask,
    Claimed,
    Grip,
    Page,
    Renewal,
    Selection,
    Settlement,
    Standing,
    Store,
)
from duly.stores.drive import Operation
from duly.testing import VirtualClock

T = TypeVar("T")

EXAMPLES = int(os.environ.get("DULY_EXAMPLES", "36"))
EVERYTHING = Page(limit=10_000, with_history=True)


class Loan(NamedTuple):
    """One claim as the two stores lent it: equal but for the secret."""

    id: str
    reference: Fence
    subject: Fence


class Numbered(Protocol):
    """What has a generation."""

    @property
    def generation(self) -> int: ...


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
        self.folder = Path(tempfile.mkdtemp())
        self.reference = STORES["memory"](self.folder, self.clock)
        self.subject = type(self).make_subject(self.folder, self.clock)
        self.reference.open()
        self.subject.open()
        self.watch = Watch()
        self.requested: dict[str, Request] = {}
        self.jobs: dict[str, Job] = {}
        self.ended: list[Loan] = []
        self.numbers: dict[int, int] = {}

    def teardown(self) -> None:
        self.subject.close()
        self.reference.close()
        shutil.rmtree(self.folder)

    loans = Bundle("loans")
    grips = Bundle("grips")

    # asking both

    def both(self, ask: Callable[[Store], Operation[T]]) -> tuple[T, T]:
        return self.reference.run(ask(self.reference)), self.subject.run(ask(self.subject))

    def same(self, ask: Callable[[Store], Operation[T]]) -> T:
        expected, answered = self.both(ask)
        assert answered == expected
        return answered

    def put_in_both(self, requests: list[Request]) -> None:
        expected, answered = self.both(lambda store: store.put(requests))
        assert [one._replace(generation=0) for one in answered] == [
            one._replace(generation=0) for one in expected
        ]
        self.match(answered, expected)

    def match(self, answered: Iterable[Numbered], expected: Iterable[Numbered]) -> None:
        """Generations agree but for numbers that were drawn in vain: the same ones, in the same order."""
        for one, other in zip(answered, expected, strict=True):
            assert self.numbers.setdefault(one.generation, other.generation) == other.generation
        assert [self.numbers[number] for number in sorted(self.numbers)] == sorted(self.numbers.values())

    def with_fence(self, loan: Loan, ask: Callable[[Store, Fence], Operation[T]]) -> tuple[T, T]:
        expected = self.reference.run(ask(self.reference, loan.reference))
        return expected, self.subject.run(ask(self.subject, loan.subject))

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
        self.match(answered.claims, expected.claims)
        assert _to_millisecond(answered.next_at) == _to_millisecond(expected.next_at)
        assert answered.now in (None, expected.now)
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

    @initialize(wanted=st.lists(some.requests, min_size=2, max_size=6))
    def open_with(self, wanted: list[Request]) -> None:
        self.put(wanted)

    @rule(wanted=st.lists(some.requests, min_size=1, max_size=4))
    def put(self, wanted: list[Request]) -> None:
        made = self.named(wanted)
        self.put_in_both(made)

    @rule(wanted=st.lists(some.keyed(), min_size=1, max_size=3))
    def put_keyed(self, wanted: list[Request]) -> None:
        self.put(wanted)

    # workers

    @rule(target=loans, worker=some.workers)
    def claim(self, worker: str) -> MultipleResults[Loan]:
        return self.claim_some(Ask(worker, some.LANES, LEASE, 10, 10))

    @rule(target=loans, worker=some.workers, span=some.seconds(1, 10, 31))
    def claim_later(self, worker: str, span: timedelta) -> MultipleResults[Loan]:
        self.clock.advance(span)
        return self.claim(worker)

    @rule(target=loans, ask=some.asks)
    def claim_some(self, ask: Ask) -> MultipleResults[Loan]:
        return self.borrowed(*self.both(lambda store: store.claim(ask)))

    @rule(loan=loans, isolated=st.booleans(), once=st.booleans())
    def begin(self, loan: Loan, isolated: bool, once: bool) -> None:
        expected, answered = self.with_fence(
            loan, lambda store, fence: store.begin([fence], isolated=isolated, once=once)
        )
        assert bool(answered) == bool(expected)

    @rule(loan=loans, worker=some.workers)
    def begin_and_die(self, loan: Loan, worker: str) -> None:
        """The body starts in isolation, and its worker is never heard of again."""
        self.begin(loan, isolated=True, once=False)
        self.clock.advance(LEASE)
        self.claim(worker)

    @rule(worker=some.workers, held=st.lists(loans, max_size=4))
    def renew(self, worker: str, held: list[Loan]) -> None:
        reference = [loan.reference for loan in held]
        subject = [loan.subject for loan in held]
        expected = self.reference.run(self.reference.renew(card(worker), reference, LEASE))
        answered = self.subject.run(self.subject.renew(card(worker), subject, LEASE))
        assert _outcome(answered) == _outcome(expected)

    @rule(worker=some.workers, held=st.lists(loans, max_size=4))
    def disown(self, worker: str, held: list[Loan]) -> None:
        expected = self.reference.run(self.reference.disown(worker, [loan.reference for loan in held]))
        answered = self.subject.run(self.subject.disown(worker, [loan.subject for loan in held]))
        assert answered == expected

    # ends

    def follow_ups(self, loan: Loan, wanted: Sequence[Request], own: Request | None) -> tuple[Request, ...]:
        made = list(wanted)
        if own is not None:
            first = self.requested[loan.id]
            own = replace(own, task=first.task, key=first.key, serial=first.serial)
            made.append(replace(own, per_key=first.per_key))
        return tuple(self.named(made))

    @rule(loan=consumes(loans), verdict=some.verdicts)
    def settle(self, loan: Loan, verdict: Verdict) -> None:
        self.settle_with(loan, verdict, (), None)

    @rule(
        loan=consumes(loans),
        verdict=some.verdicts,
        wanted=st.lists(some.requests, max_size=2),
        own=st.none() | some.keyed(),
    )
    def settle_with(
        self, loan: Loan, verdict: Verdict, wanted: Sequence[Request], own: Request | None
    ) -> None:
        then = self.follow_ups(loan, wanted, own)
        ended = some.at_a_time(verdict, self.clock.now())
        arguments = "[[9],{}]" if ended != verdict else None
        expected, answered = self.with_fence(
            loan,
            lambda store, fence: store.settle(
                "w1", [Settlement(fence, ended, self.clock.now(), then, arguments)]
            ),
        )
        assert answered == expected
        self.ended.append(loan)

    @rule(data=st.data(), verdict=some.verdicts, wanted=st.lists(some.requests, max_size=1))
    def settle_late(self, data: st.DataObject, verdict: Verdict, wanted: list[Request]) -> None:
        """A zombie, or a worker whose answer was lost."""
        if self.ended:
            self.settle_with(data.draw(st.sampled_from(self.ended)), verdict, wanted, None)

    @rule(
        target=loans,
        ended=st.lists(
            st.tuples(loans, some.verdicts, st.lists(some.requests, max_size=1), st.none() | some.keyed()),
            max_size=3,
        ),
        ask=some.asks,
    )
    def turn(
        self, ended: list[tuple[Loan, Verdict, list[Request], Request | None]], ask: Ask
    ) -> MultipleResults[Loan]:
        then = [self.follow_ups(loan, wanted, own) for loan, _, wanted, own in ended]
        first = [
            Settlement(one[0].reference, one[1], then=more) for one, more in zip(ended, then, strict=True)
        ]
        second = [
            Settlement(one[0].subject, one[1], then=more) for one, more in zip(ended, then, strict=True)
        ]
        expected = self.reference.run(self.reference.turn(first, ask))
        answered = self.subject.run(self.subject.turn(second, ask))
        assert answered.answers == expected.answers
        self.jobs = {}  # what the settles freed was not to be seen before
        return self.borrowed(expected.claimed, answered.claimed)

    # operators, time, and the rest of a store

    @rule(data=st.data(), order=some.orders)
    def amend_one(self, data: st.DataObject, order: Amendment) -> None:
        if self.jobs:
            one = Selection(ids=(data.draw(st.sampled_from(sorted(self.jobs))),))
            self.same(lambda store: store.amend(one, order))

    @rule(span=some.seconds(0.001, 1, 2.5, 5, 10, 31))
    def advance(self, span: timedelta) -> None:
        self.clock.advance(span)

    @rule(chore=st.one_of(some.chores, st.builds(timedelta, seconds=st.sampled_from([-3600, -7, 7, 3600]))))
    def look_after_it(self, chore: some.Chore | timedelta) -> None:
        if isinstance(chore, timedelta):
            self.clock.step_wall(chore)
        else:
            now = self.clock.now()
            self.same(lambda store: chore(store, now))

    @rule(loan=loans, text=st.sampled_from(["10 %", "20 %"]))
    def report(self, loan: Loan, text: str) -> None:
        self.with_fence(loan, lambda store, fence: store.report({fence: text}))

    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """The same request once more, and why its job does not run."""
        job_id = data.draw(st.sampled_from(sorted(self.requested)))
        self.put_in_both([self.requested[job_id]])
        expected, answered = self.both(lambda store: store.explain(job_id))
        assert _conditions(answered) == _conditions(expected)

    @rule(target=grips, name=st.sampled_from("pq"), owner=some.workers)
    def grip(self, name: str, owner: str) -> MultipleResults[Grips]:
        expected, answered = self.both(lambda store: store.grip(name, owner, LEASE))
        assert (expected is None) == (answered is None)
        return multiple(Grips(expected, answered)) if expected and answered else multiple()

    @rule(grip=grips, keeps=st.booleans())
    def keep_or_let_go(self, grip: Grips, keeps: bool) -> None:
        def ask(store: Store, held: Grip) -> Operation[bool]:
            return store.keep_grip(held, LEASE) if keeps else store.let_go(held)

        expected = self.reference.run(ask(self.reference, grip.reference))
        assert self.subject.run(ask(self.subject, grip.subject)) == expected

    # what must hold

    @invariant()
    def stores_agree_and_rules_hold(self) -> None:
        expected, seen = self.both(lambda store: store.find(Selection(), EVERYTHING))
        assert [_rounded(job) for job in seen] == [_rounded(job) for job in expected]
        self.match(seen, expected)
        for job, other in zip(seen, expected, strict=True):
            self.match(job.history, other.history)
        self.jobs = {job.id: job for job in seen}
        self.same(lambda store: store.census())
        self.same(lambda store: store.switches())
        assert _attendance(self.subject) == _attendance(self.reference)
        self.watch.look(self.jobs.values(), self.clock.now(), some.LIMITS)


def _shown(lent: Claim) -> Claim:
    return lent._replace(nonce="", generation=0)


def _rounded(job: Job) -> Job:
    """Leases are kept in seconds of boot time; what they mean on the wall may differ by a rounding."""
    lines = tuple(replace(line, generation=0) for line in job.history)
    shown = replace(job, generation=0, history=lines)
    return replace(shown, ready_at=_to_millisecond(job.ready_at)) if job.state is State.RUNNING else shown


def _to_millisecond(at: datetime | None) -> datetime | None:
    if at is None:
        return None
    nearest = at + timedelta(microseconds=500)
    return nearest.replace(microsecond=nearest.microsecond // 1000 * 1000)


def _outcome(renewal: Renewal) -> tuple[set[tuple[str, int]], dict[tuple[str, int], Any]]:
    lost = {fence[:2] for fence in renewal.lost}
    return lost, {fence[:2]: order for fence, order in renewal.orders.items()}


def _conditions(standing: Standing | None) -> list[tuple[str, bool]] | None:
    return None if standing is None else [(name, holds) for name, holds, _ in standing.conditions]


def _attendance(store: Store) -> set[tuple[str, bool]]:
    return {(shown.id, has_lease) for shown, _, has_lease in store.run(store.workers())}


@pytest.mark.timeout(0 if EXAMPLES > 100 else 180)
@pytest.mark.parametrize("name", list(STORES))
def test_the_store_walks_in_step_with_the_memory_store(name: str) -> None:
    machine = type(f"Lockstep{name.title()}", (Lockstep,), {"make_subject": staticmethod(STORES[name])})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES // 2 if name == "postgres" else EXAMPLES,  # where a step takes longest
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            print_blob=True,
        ),
    )
