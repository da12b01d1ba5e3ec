"""Requests, verdicts and orders for the state machine: few keys and short times, so that they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from duly.job import ENGINE_QUEUES, Clash, Delivery, Guard, Keep, Overlap, Request, State
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import (
    Amendment,
    Ask,
    Cancel,
    Delete,
    Lane,
    Postpone,
    Rate,
    Revive,
    Scope,
    Selection,
    Store,
    Switch,
)
from duly.stores.drive import Operation, Steps

LANES: Final = {
    "x": Lane("x"),
    "y": Lane("y", concurrency=2),
    "z": Lane("z", rate=Rate(2, timedelta(seconds=20)), held_by=("x",), on_any_queue=True),
}
TASKS: Final = tuple(LANES)
QUEUES: Final = ("default", "io", *ENGINE_QUEUES)
LEASE: Final = timedelta(seconds=10)
WORKERS: Final = ("w1", "w2", "w3")
PER_KEY: Final = {"a": 1, "b": 2, "c": 0}
TICKS: Final = {"nightly": 1, "hourly": 2}

LIMITS: Final = {f"{task}|{key}": limit for task in TASKS for key, limit in PER_KEY.items()} | TICKS
"""How many runs of each serial may be in progress."""


def seconds(*choices: float) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(seconds=choice) for choice in choices])


waits = seconds(0, 0, 0, 1, 3, 15, 90)
_texts = st.sampled_from(["[[1],{}]", "[[2],{}]", "[[3],{}]"])
_priorities = st.sampled_from([0, 0, 0, 5, -5])
_expiries = st.sampled_from([None, None, None, timedelta(seconds=2), timedelta(seconds=20)])


@st.composite
def plain(draw: st.DrawFn) -> Request:
    """A request without a key; the machine gives it an id."""
    return Request(
        id="",
        task=draw(st.sampled_from(TASKS)),
        arguments=draw(_texts),
        queue=draw(st.sampled_from(QUEUES)),
        priority=draw(_priorities),
        delay=draw(st.none() | waits),
        expires_after=draw(_expiries),
        delivery=draw(st.sampled_from(Delivery)),
        keep=Keep(done=timedelta(seconds=30), failed=timedelta(seconds=60)),
    )


@st.composite
def keyed(draw: st.DrawFn) -> Request:
    """A request for one of a few keys."""
    key = draw(st.sampled_from(sorted(PER_KEY)))
    return replace(
        draw(plain()),
        key=key,
        per_key=PER_KEY[key],
        overlap=draw(st.sampled_from(Overlap)),
        clash=draw(st.sampled_from([Clash.ADD, Clash.ADD, Clash.ADD, Clash.REPLACE, Clash.SEED])),
        guard=draw(st.none() | st.none() | st.builds(Guard, seconds(2, 10), st.booleans())),
        perpetual=draw(st.booleans()),
    )


@st.composite
def ticks(draw: st.DrawFn) -> Request:
    """A tick of one of two schedules."""
    schedule = draw(st.sampled_from(sorted(TICKS)))
    return replace(
        draw(plain()),
        task="x",
        key=f"{schedule}@{draw(st.integers(1, 4))}",
        serial=schedule,
        per_key=TICKS[schedule],
        overlap=draw(st.sampled_from(Overlap)),
    )


requests = st.one_of(keyed(), keyed(), ticks(), plain())

verdicts: st.SearchStrategy[Verdict] = st.one_of(
    st.builds(Done, st.none() | st.just("42"), st.none() | seconds(5)),
    st.builds(Again, after=waits, error=st.none() | st.just("cycle failed")),
    st.builds(Stop, st.none() | st.just("stopped")),
    st.builds(TryAgain, waits, st.just("boom")),
    st.builds(Defer, waits),
    st.builds(Release, waits, st.just("deploy")),
    st.builds(Crash, st.just("signal 9"), st.booleans(), waits),
    st.builds(Fail, st.just("ValueError: 100%"), st.just("failed")),
    st.builds(Skip, st.just("gone")),
)

orders: st.SearchStrategy[Amendment] = st.one_of(
    st.builds(Cancel), st.builds(Delete), st.builds(Revive), st.builds(Postpone)
)

selections = st.builds(
    Selection,
    tasks=st.sampled_from([(), (), ("x",), ("y", "z")]),
    states=st.sampled_from([(), (), (State.WAITING,), (State.RUNNING,), (State.FAILED, State.CANCELLED)]),
    queues=st.sampled_from([(), (), ("io",)]),
    key=st.none() | st.sampled_from(sorted(PER_KEY)),
    error=st.sampled_from([None, None, None, "100%", "BOOM"]),
)

workers = st.sampled_from(WORKERS)


@st.composite
def _asks(draw: st.DrawFn) -> Ask:
    """A claim with less than everything: few lanes, one queue, no free slots, no right to take over."""
    tasks = draw(st.sets(st.sampled_from(TASKS), min_size=1))
    limit = draw(st.sampled_from([0, 1, 2, 10]))
    return Ask(
        worker=draw(workers),
        lanes={task: LANES[task] for task in sorted(tasks)},
        lease=LEASE,
        limit=limit,
        free=min(draw(st.integers(0, 3)), limit),
        queues=draw(st.sampled_from([None, None, frozenset({"io"})])),
        takes_over=draw(st.sampled_from([True, True, False])),
    )


asks = _asks()


def at_a_time(verdict: Verdict, now: datetime) -> Verdict:
    """A long wait for the next cycle is said as a time instead."""
    if isinstance(verdict, Again) and verdict.after > timedelta(seconds=60):
        return Again(at=now + verdict.after, error=verdict.error)
    return verdict


# --- what is asked of both stores in the same words ------------------------------------------------

Chore = Callable[[Store, datetime], Operation[Any]]


def _amend(selection: Selection, order: Amendment, limit: int) -> Chore:
    return lambda store, _: store.amend(selection, order, by="anna", limit=limit)


def _hold(name: tuple[Scope, str], until: timedelta | None) -> Chore:
    return lambda store, now: store.hold(Switch(*name, None if until is None else now + until, "because"))


def _prune(limit: int) -> Chore:
    return lambda store, _: store.prune(limit)


def _leave(worker: str) -> Chore:
    return lambda store, _: store.leave(worker)


def _free(name: tuple[Scope, str]) -> Chore:
    """Answers whether it was held; of one that ended by itself a store may say either."""

    def ask(store: Store, _: datetime) -> Operation[Any]:
        def steps() -> Steps[None]:
            yield from store.free(*name).steps()

        return Operation("free", steps)

    return ask


_switch_names = st.sampled_from(
    [(Scope.TASK, "x"), (Scope.TASK, "y"), (Scope.QUEUE, "io"), (Scope.QUEUE, "default")]
)

chores: st.SearchStrategy[Chore] = st.one_of(
    st.builds(_amend, selections, orders, st.sampled_from([1, 2])),
    st.builds(_prune, st.sampled_from([1, 100])),
    st.builds(_hold, _switch_names, st.none() | waits),
    st.builds(_free, _switch_names),
    st.builds(_free, _switch_names),
    st.builds(_leave, workers),
)
