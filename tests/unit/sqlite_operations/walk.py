"""A random walk through the contract, taken by two stores at once.

The same requests, verdicts and orders go to both; ids are given, so only nonces differ. A claim is
remembered as a pair, one of each store, and each store is shown its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar, cast

from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import (
    ENGINE_QUEUES,
    Claim,
    Clash,
    Decision,
    Delivery,
    Fence,
    Guard,
    Keep,
    Overlap,
    Request,
    State,
)
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import (
    Amendment,
    Ask,
    Cancel,
    Claimed,
    Delete,
    Grip,
    Lane,
    Page,
    Postpone,
    Rate,
    Renewal,
    Revive,
    Scope,
    Selection,
    Settlement,
    Store,
    Switch,
    WorkerCard,
)
from duly.stores.drive import Operation
from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock

T = TypeVar("T")
Pair = tuple[Fence, Fence]

TASKS = ("alpha", "beta", "gamma")
QUEUES = ("default", "slow", *ENGINE_QUEUES)
WORKERS = ("w1", "w2", "w3")
SECOND = timedelta(seconds=1)


class Walk:
    """One walk: `step` takes a random step on both stores and compares what they say and hold."""

    def __init__(self, seed: int, memory: MemoryStore, sqlite: PlainStore, clock: VirtualClock) -> None:
        self.chance = random.Random(seed)
        self.memory = cast(Store, memory)
        self.sqlite = cast(Store, sqlite)  # it lacks what operations do not need
        self.clock = clock
        self.pairs: list[Pair] = []
        self.places: dict[Fence, int] = {}
        """Where the jobs of SQLite were when they were lent."""
        self.grips: list[Grip] = []
        self.ids: list[str] = []
        self.trail: list[str] = []
        self.steps: list[Callable[[], None]] = [
            self.put, self.put, self.put, self.claim, self.claim, self.claim, self.settle, self.settle,
            self.settle, self.turn, self.begin, self.renew, self.report, self.amend, self.amend, self.prune,
            self.hold, self.free, self.grip, self.keep_grip, self.let_go, self.leave, self.look, self.wait,
            self.wait, self.record, self.disown,
        ]  # fmt: skip

    def step(self) -> None:
        act = self.chance.choice(self.steps)
        self.trail.append(act.__name__)
        act()
        self.compare()

    def compare(self) -> None:
        everything = Page(limit=10_000, with_history=True)
        mine, theirs = self.ask(lambda store: store.find(Selection(), everything))
        assert theirs == mine, self.trail
        self.same(lambda store: store.census())
        self.same(lambda store: store.workers())
        self.same(lambda store: store.switches())

    def ask(self, make: Callable[[Store], Operation[T]]) -> tuple[T, T]:
        return self.memory.run(make(self.memory)), self.sqlite.run(make(self.sqlite))

    def same(self, make: Callable[[Store], Operation[T]]) -> T:
        mine, theirs = self.ask(make)
        assert theirs == mine, self.trail
        return mine

    def tell(self, make: Callable[[Store, int], Operation[T]]) -> tuple[T, T]:
        """Like `ask`, for operations that show a fence: each store gets its own."""
        return self.memory.run(make(self.memory, 0)), self.sqlite.run(make(self.sqlite, 1))

    # --- requests

    def request(self) -> Request:
        chance = self.chance
        key = chance.choice([None, None, "k1", "k2"])
        is_tick = key is not None and chance.random() < 0.3
        job_id = f"job-{len(self.ids)}"
        if self.ids and chance.random() < 0.05:
            job_id = chance.choice(self.ids)
        self.ids.append(job_id)
        return Request(
            id=job_id,
            task=chance.choice(TASKS),
            arguments=f'["{job_id}"]',
            queue=chance.choice(QUEUES),
            priority=chance.choice([-1, 0, 0, 0, 5]),
            key=f"tick@{chance.randrange(4)}" if is_tick else key,
            serial="schedule" if is_tick else None,
            run_after=self.clock.now() + chance.randrange(-5, 20) * SECOND if chance.random() < 0.2 else None,
            delay=chance.randrange(0, 20) * SECOND if chance.random() < 0.2 else None,
            expires_after=chance.randrange(1, 30) * SECOND if chance.random() < 0.2 else None,
            clash=chance.choice([Clash.ADD, Clash.ADD, Clash.ADD, Clash.REPLACE, Clash.SEED]),
            overlap=chance.choice(list(Overlap)),
            per_key=chance.choice([1, 1, 1, 0, 2]),
            guard=self.guard() if key and chance.random() < 0.2 else None,
            delivery=chance.choice(list(Delivery)),
            keep=Keep(chance.choice([5, 50]) * SECOND, 100 * SECOND),
            perpetual=chance.random() < 0.3,
            tick=self.clock.now() if is_tick else None,
            context=chance.choice(["{}", '{"trace": "é"}']),
        )

    def guard(self) -> Guard:
        return Guard(self.chance.randrange(1, 20) * SECOND, trailing=self.chance.random() < 0.5)

    def requests(self, most: int) -> list[Request]:
        return [self.request() for _ in range(self.chance.randrange(most + 1))]

    def put(self) -> None:
        requests = self.requests(4)
        if requests and self.chance.random() < 0.2:
            self.ids += [f"{requests[0].id}-{n}" for n in range(20)]
            requests = [replace(requests[0], id=f"{requests[0].id}-{n}") for n in range(20)]
        if self.chance.random() < 0.2:
            self.offer(requests)
        else:
            self.same(lambda store: store.put(requests))

    def offer(self, requests: list[Request]) -> None:
        """All with keys or all without: in one offer those without are stored before the others."""
        is_keyed = self.chance.random() < 0.5
        requests = [request for request in requests if (request.key is not None) is is_keyed]
        mine, theirs = self.ask(lambda store: store.offer(requests))
        for given, wanted in zip(theirs, mine, strict=True):
            assert given == wanted or given.decision in (Decision.PENDING, Decision.KEPT)
        self.same(lambda store: store.prune(0))  # absorbs what was offered

    # --- workers

    def lanes(self) -> dict[str, Lane]:
        chance = self.chance
        tasks = chance.sample(TASKS, chance.randrange(1, 4))
        return {task: self.lane(task) for task in tasks}

    def lane(self, task: str) -> Lane:
        chance = self.chance
        return Lane(
            task,
            concurrency=chance.choice([None, None, 1, 3]),
            rate=chance.choice([None, None, None, Rate(2, 10 * SECOND)]),
            on_any_queue=chance.random() < 0.1,
            held_by=("beta",) if chance.random() < 0.1 else (),
        )

    def wanted(self) -> Ask:
        chance = self.chance
        return Ask(
            worker=chance.choice(WORKERS),
            lanes=self.lanes(),
            lease=30 * SECOND,
            limit=chance.choice([0, 1, 2, 5, 100]),
            free=chance.choice([0, 1, 2, 100]),
            queues=chance.choice([None, None, frozenset({"default"})]),
            takes_over=chance.random() < 0.8,
        )

    def claim(self) -> None:
        wanted = self.wanted()
        mine, theirs = self.ask(lambda store: store.claim(wanted))
        self.lent(mine, theirs)

    def lent(self, mine: Claimed, theirs: Claimed, *, may_be_early: bool = False) -> None:
        assert [without_nonce(claim) for claim in theirs.claims] == [
            without_nonce(claim) for claim in mine.claims
        ], self.trail
        is_early = theirs.next_at is not None and (mine.next_at is None or theirs.next_at < mine.next_at)
        assert theirs.next_at == mine.next_at or (may_be_early and is_early), self.trail
        fences = [claim.fence for claim in mine.claims], [claim.fence for claim in theirs.claims]
        self.pairs += zip(*fences, strict=True)
        self.places |= {claim.fence: claim.generation for claim in theirs.claims}

    def some_pairs(self, most: int) -> list[Pair]:
        """Mostly recent claims, some of them long lost."""
        recent = self.pairs[-8:] if self.chance.random() < 0.8 else self.pairs
        return self.chance.sample(recent, min(len(recent), self.chance.randrange(most + 1)))

    def begin(self) -> None:
        pairs, isolated, once = self.some_pairs(6), self.chance.random() < 0.5, self.chance.random() < 0.2
        mine, theirs = self.tell(
            lambda store, which: store.begin([pair[which] for pair in pairs], isolated=isolated, once=once)
        )
        assert {fence.id for fence in theirs} == {fence.id for fence in mine}, self.trail

    def renew(self) -> None:
        card = WorkerCard(
            self.chance.choice(WORKERS), "name", "host", 7, self.clock.now(), ("default",), TASKS[:2], 4, "1"
        )
        pairs = self.some_pairs(6)
        mine, theirs = self.tell(
            lambda store, which: store.renew(card, [pair[which] for pair in pairs], 30 * SECOND)
        )
        assert told(theirs) == told(mine), self.trail

    def report(self) -> None:
        pairs = self.some_pairs(3)
        self.tell(lambda store, which: store.report({pair[which]: "halfway" for pair in pairs}))

    def disown(self) -> None:
        worker, pairs = self.chance.choice(WORKERS), self.some_pairs(8)
        mine, theirs = self.tell(lambda store, which: store.disown(worker, [pair[which] for pair in pairs]))
        assert theirs == mine, self.trail

    def leave(self) -> None:
        worker = self.chance.choice(WORKERS)
        self.same(lambda store: store.leave(worker))

    # --- verdicts

    def verdict(self) -> Verdict:
        chance = self.chance
        after = chance.choice([0, 0, 5]) * SECOND
        error = chance.choice(["Boom", "Échec"])
        verdicts: list[Verdict] = [
            Done(), Done(), Done(), Done(), Done("1"), Done("2", 5 * SECOND), Done("a\0b"),
            Again(self.clock.now() + 5 * SECOND), Again(after=after), Again(after=after, error=error), Stop(),
            Stop(error), TryAgain(after, error), Defer(after), Release(after, "deploy"), Fail(error),
            Fail(error, "gave up"), Skip("gone"),
            Crash("SIGKILL", counted=chance.random() < 0.7, after=after),
        ]  # fmt: skip
        return chance.choice(verdicts[:7] if chance.random() < 0.3 else verdicts)

    def settlements(self) -> tuple[list[Settlement], list[Settlement]]:
        pairs = self.some_pairs(6)
        if pairs and self.chance.random() < 0.1:
            pairs.append(pairs[0])
        only_done = self.chance.random() < 0.3
        made = [(pair, self.settlement(pair[0], only_done=only_done)) for pair in pairs]
        mine = [one for _, one in made]
        return mine, [one._replace(fence=pair[1], generation=self.place(pair[1])) for pair, one in made]

    def place(self, fence: Fence) -> int | None:
        """Mostly told, as workers do; or not; or where nothing is."""
        chance = self.chance.random()
        return self.places[fence] if chance < 0.6 else None if chance < 0.9 else 10**6

    def settlement(self, fence: Fence, *, only_done: bool) -> Settlement:
        if only_done:
            return Settlement(fence, Done(), started_at=self.clock.now())
        then = self.requests(2) if self.chance.random() < 0.3 else []
        for job in self.memory.run(self.memory.find(Selection(ids=(fence.id,)), Page())) if then else []:
            then[0] = replace(then[0], task=job.task, key=job.key, serial=job.serial)
        return Settlement(
            fence,
            self.verdict(),
            started_at=self.chance.choice([None, self.clock.now()]),
            then=tuple(then),
            arguments=self.chance.choice([None, "[2]"]),
        )

    def settle(self) -> None:
        both = self.settlements()
        mine, theirs = self.tell(lambda store, which: store.settle("w1", both[which]))
        assert theirs == mine, self.trail

    def turn(self) -> None:
        both, wanted = self.settlements(), self.wanted()
        mine, theirs = self.tell(lambda store, which: store.turn(both[which], wanted))
        assert theirs.answers == mine.answers, self.trail
        # Where it ended the last run of another worker, which no worker does, it names that lease's end too.
        self.lent(mine.claimed, theirs.claimed, may_be_early=bool(both[1]))

    # --- operators

    def selection(self) -> Selection:
        chance = self.chance
        return Selection(
            ids=tuple(chance.sample(self.ids, min(len(self.ids), 3))) if chance.random() < 0.3 else (),
            tasks=chance.choice([(), (), ("alpha",), ("beta", "gamma")]),
            states=chance.choice([(), (), (State.WAITING,), (State.RUNNING, State.FAILED), (State.DONE,)]),
            queues=chance.choice([(), (), ("slow",)]),
            key=chance.choice([None, None, None, "k1"]),
            error=chance.choice([None, None, None, "échec", "boom", ""]),
        )

    def amend(self) -> None:
        chance = self.chance
        amendments: list[Amendment] = [
            Cancel(),
            Delete(),
            Revive(),
            Revive(),
            Postpone(),
            Postpone(self.clock.now() + 7 * SECOND),
        ]
        selection, amendment, limit = self.selection(), chance.choice(amendments), chance.choice([1, 2, 1000])
        self.same(lambda store: store.amend(selection, amendment, by="ann", limit=limit))

    def prune(self) -> None:
        limit = self.chance.choice([1, 3, 100])
        self.same(lambda store: store.prune(limit))

    def hold(self) -> None:
        chance = self.chance
        until = chance.choice([None, self.clock.now() + 5 * SECOND])
        scope = chance.choice(list(Scope))
        name = chance.choice(TASKS if scope is Scope.TASK else QUEUES)
        self.same(lambda store: store.hold(Switch(scope, name, until, "maintenance")))

    def free(self) -> None:
        for scope, names in ((Scope.TASK, TASKS), (Scope.QUEUE, QUEUES)):
            for name in names:
                self.let_move(scope, name)

    def let_move(self, scope: Scope, name: str) -> None:
        self.same(lambda store: store.free(scope, name))

    def grip(self) -> None:
        owner = self.chance.choice(WORKERS)
        held = self.same(lambda store: store.grip("door", owner, 10 * SECOND))
        if held:
            self.grips.append(held)

    def keep_grip(self) -> None:
        if self.grips:
            held = self.chance.choice(self.grips)
            self.same(lambda store: store.keep_grip(held, 10 * SECOND))

    def let_go(self) -> None:
        if self.grips:
            held = self.chance.choice(self.grips)
            self.same(lambda store: store.let_go(held))

    def record(self) -> None:
        text = self.chance.choice([None, "text"])
        self.same(lambda store: store.record("schedule", "nightly", text))
        self.same(lambda store: store.records("schedule"))

    def look(self) -> None:
        selection = self.selection()
        self.same(lambda store: store.count(selection))
        page = Page(self.chance.choice([1, 3, 100]), self.chance.choice([None, 5, 20]), with_history=True)
        self.same(lambda store: store.find(selection, page))
        for job_id in self.ids[-3:]:
            self.explain(job_id)

    def explain(self, job_id: str) -> None:
        self.same(lambda store: store.explain(job_id))

    def wait(self) -> None:
        self.clock.advance(self.chance.choice([1, 1, 3, 10, 40]) * SECOND)


def without_nonce(claim: Claim) -> Claim:
    return claim._replace(nonce="")


def told(renewal: Renewal) -> tuple[set[tuple[str, int]], dict[tuple[str, int], str]]:
    lost = {(fence.id, fence.epoch) for fence in renewal.lost}
    return lost, {(fence.id, fence.epoch): order for fence, order in renewal.orders.items()}
