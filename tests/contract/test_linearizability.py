"""Operations of real concurrent clients must have some order in which the memory store answers the same.

Three clients, each with its own connections, run a few operations each at the same time. Every call and
return is timed; then all orders that respect those times are searched for one the specification agrees
with (Wing and Gong, with memory of what was tried). If there is none, the history is printed.
"""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from tests.contract.arrange import LEASE, TASK
from tests.contract.stores import STORES

from duly.job import Claim, Clash, Fence, Overlap, Request, State
from duly.lifecycle import Again, Done, Release, Verdict
from duly.stores.contract import Ask, Cancel, Lane, Revive, Selection, Settlement, Store
from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock

CLIENTS, CALLS = 3, 5
HISTORIES = 25
KEYS = ("a", "b", None)
SKIPS_LOCKED = {"postgres"}
"""Stores whose claims pass over rows that another transaction holds, rather than wait for it."""
VERDICTS: tuple[Verdict, ...] = (Done(), Again(), Release())

Answer = tuple[object, ...]
Act = Callable[[Store, "Memory"], Answer]


class Memory:
    """What a client remembers of its claims: fences by (job, epoch), since nonces differ by store."""

    def __init__(self) -> None:
        self.fences: dict[tuple[str, int], Fence] = {}

    def learn(self, claims: Sequence[Claim]) -> None:
        self.fences.update({(claim.id, claim.epoch): claim.fence for claim in claims})


@dataclass(frozen=True)
class Call:
    """One operation as it happened: what was asked, when, and what came back."""

    client: int
    name: str
    act: Act
    began: float
    ended: float
    answer: Answer

    def __str__(self) -> str:
        return f"client {self.client}: {self.name} -> {self.answer}  [{self.began:.6f}, {self.ended:.6f}]"


def put(request: Request) -> tuple[str, Act]:
    def act(store: Store, _: Memory) -> Answer:
        placed = store.run(store.put([request]))[0]
        return placed.id, str(placed.decision)

    return f"put {request.id} key={request.key} {request.clash} {request.overlap}", act


def claim(worker: str, limit: int) -> tuple[str, Act]:
    def act(store: Store, memory: Memory) -> Answer:
        ask = Ask(worker, {TASK: Lane(TASK)}, LEASE, limit=limit, free=limit)
        claims = store.run(store.claim(ask)).claims
        memory.learn(claims)
        return tuple(sorted((claim.id, claim.epoch) for claim in claims))

    return f"claim by {worker}", act


def claim_of(worker: str, answer: Answer) -> Act:
    """What a claim that passes over rows others hold must still have been: these were free."""

    def act(store: Store, memory: Memory) -> Answer:
        assert isinstance(store, MemoryStore)
        lent = {job_id for job_id, _ in cast(tuple[tuple[str, int], ...], answer)}
        others = [
            row for row in store.world.rows.values() if row.id not in lent and row.state is State.WAITING
        ]
        due = [row.ready_at for row in others]
        for row in others:
            row.ready_at = store.world.now() + LEASE
        found = claim(worker, max(1, len(lent)))[1](store, memory)
        for row, ready_at in zip(others, due, strict=True):
            row.ready_at = ready_at
        return found

    return act


def settle(worker: str, job: tuple[str, int], verdict: Verdict) -> tuple[str, Act]:
    def act(store: Store, memory: Memory) -> Answer:
        fence = memory.fences.get(job, Fence(*job, "unknown"))
        return (str(store.run(store.settle(worker, [Settlement(fence, verdict)]))[0]),)

    return f"settle {job} {type(verdict).__name__}", act


def amend(job_id: str, order: Cancel | Revive) -> tuple[str, Act]:
    def act(store: Store, _: Memory) -> Answer:
        answers = store.run(store.amend(Selection(ids=(job_id,)), order))
        return tuple((answer.id, answer.took_effect) for answer in answers)

    return f"{type(order).__name__} {job_id}", act


class Client:
    """A client that makes up its next operation from what it has seen."""

    def __init__(self, number: int, seed: int, store: Store) -> None:
        self._number = number
        self._dice = random.Random(f"{seed}/{number}")
        self._store = store
        self._memory = Memory()
        self._seen: list[str] = []
        self.calls: list[Call] = []

    def run(self, start: threading.Barrier) -> None:
        start.wait()
        for turn in range(CALLS):
            name, act = self._next(turn)
            began = time.perf_counter()
            answer = act(self._store, self._memory)
            self.calls.append(Call(self._number, name, act, began, time.perf_counter(), answer))

    def _next(self, turn: int) -> tuple[str, Act]:
        worker = f"w{self._number}"
        choice = self._dice.choice(("put", "put", "claim", "claim", "settle", "settle", "amend"))
        held = list(self._memory.fences)
        if choice == "settle" and held:
            return settle(worker, self._dice.choice(held), self._dice.choice(VERDICTS))
        if choice == "amend" and self._seen:
            return amend(self._dice.choice(self._seen), self._dice.choice((Cancel(), Revive())))
        if choice == "claim":
            return claim(worker, self._dice.choice((1, 2)))
        return put(self._request(turn))

    def _request(self, turn: int) -> Request:
        key = self._dice.choice(KEYS)
        clash = self._dice.choice((Clash.ADD, Clash.REPLACE)) if key else Clash.ADD
        overlap = self._dice.choice((Overlap.QUEUE_ONE, Overlap.SKIP, Overlap.ALLOW))
        self._seen.append(job_id := f"c{self._number}t{turn}")
        per_key = 0 if overlap is Overlap.ALLOW else 1
        return Request(
            id=job_id, task=TASK, arguments="[[],{}]", key=key, clash=clash, overlap=overlap, per_key=per_key
        )


def record(make: Callable[[], Store], seed: int) -> list[Call]:
    stores = [make() for _ in range(CLIENTS)]
    for store in stores:
        store.open()
    clients = [Client(number, seed, store) for number, store in enumerate(stores)]
    start = threading.Barrier(CLIENTS)
    threads = [threading.Thread(target=client.run, args=(start,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    return [call for client in clients for call in client.calls]


class Search:
    """Looks for one legal order of a history."""

    def __init__(self, calls: list[Call], clock: VirtualClock, *, skips_locked: bool = False) -> None:
        self._calls = sorted(calls, key=lambda call: call.began)
        if skips_locked:
            self._calls = [relaxed(call) for call in self._calls]
        self._clock = clock
        self._dead: set[tuple[frozenset[int], str]] = set()
        self.longest: list[Call] = []

    def is_legal(self) -> bool:
        return self._extend([], frozenset(range(len(self._calls))), MemoryStore(clock=self._clock), Memory())

    def _extend(self, order: list[Call], rest: frozenset[int], model: MemoryStore, memory: Memory) -> bool:
        if len(order) > len(self.longest):
            self.longest = list(order)
        if not rest:
            return True
        state = (rest, fingerprint(model))
        if state in self._dead:
            return False
        deadline = min(self._calls[index].ended for index in rest)
        for index in sorted(rest):
            call = self._calls[index]
            if call.began > deadline:  # another operation had returned before this one was called
                break
            next_model, next_memory = branch(model, self._clock), copy.deepcopy(memory)
            if call.act(next_model, next_memory) == call.answer and self._extend(
                [*order, call], rest - {index}, next_model, next_memory
            ):
                return True
        self._dead.add(state)
        return False


def relaxed(call: Call) -> Call:
    """A claim need not have lent all it could, nor the first: what it lent must have been free."""
    if not call.name.startswith("claim"):
        return call
    return replace(call, act=claim_of(f"w{call.client}", call.answer))


def branch(model: MemoryStore, clock: VirtualClock) -> MemoryStore:
    copied = MemoryStore(clock=clock)
    copied.world = copy.deepcopy(model.world, {id(clock): clock})
    return copied


def fingerprint(model: MemoryStore) -> str:
    rows = sorted(model.world.rows.values(), key=lambda row: row.generation)
    return repr([(row.id, row.state, row.epoch, row.is_parked, row.superseded_by, row.wish) for row in rows])


def maker(name: str, folder: Path, clock: VirtualClock) -> Callable[[], Store]:
    """Each client opens the store for itself; a memory store can only be shared."""
    folder.mkdir()
    if name == "memory":
        shared = MemoryStore(clock=clock)
        return lambda: shared
    return lambda: STORES[name](folder, clock)


@pytest.mark.parametrize("name", list(STORES))
def test_concurrent_operations_have_a_legal_order(name: str, tmp_path: Path) -> None:
    clock = VirtualClock()

    for seed in range(HISTORIES):
        calls = record(maker(name, tmp_path / str(seed), clock), seed)
        search = Search(calls, clock, skips_locked=name in SKIPS_LOCKED)

        assert search.is_legal(), witness(seed, calls, search)


def witness(seed: int, calls: list[Call], search: Search) -> str:
    told = "\n".join(str(call) for call in sorted(calls, key=lambda call: call.began))
    agreed = "\n".join(str(call) for call in search.longest)
    return f"no legal order for seed {seed}:\n{told}\n\nthe longest that agrees:\n{agreed}"


@pytest.mark.parametrize("skips_locked", [False, True])
def test_the_search_rejects_a_history_with_a_doubled_claim(*, skips_locked: bool) -> None:
    clock = VirtualClock()
    name, put_one = put(Request(id="j", task=TASK, arguments="[[],{}]"))
    calls = [Call(0, name, put_one, 0.0, 1.0, ("j", "created"))]
    for worker, began in (("w1", 2.0), ("w2", 2.5)):
        name, act = claim(worker, 1)
        calls.append(Call(1, name, act, began, began + 1.0, (("j", 1),)))

    assert not Search(calls, clock, skips_locked=skips_locked).is_legal()
