"""Requests, verdicts and orders for the state machine: few keys and short times, so that they meet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypothesis import strategies as st

from duly.job import Clash, Delivery, Guard, Keep, Overlap, Request, State
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import Amendment, Cancel, Delete, Lane, Postpone, Rate, Revive, Scope, Selection

LANES: Final = {
    "x": Lane("x"),
    "y": Lane("y", concurrency=2),
    "z": Lane("z", rate=Rate(2, timedelta(seconds=20)), held_by=("x",), on_any_queue=True),
}
TASKS: Final = tuple(LANES)
QUEUES: Final = ("default", "io")
WORKERS: Final = ("w1", "w2", "w3")
PER_KEY: Final = {"a": 1, "b": 2, "c": 0}
TICKS: Final = {"nightly": 1, "hourly": 2}

LIMITS: Final = {f"{task}|{key}": limit for task in TASKS for key, limit in PER_KEY.items()} | TICKS
"""How many runs of each serial may be in progress."""


def seconds(*choices: float) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(seconds=choice) for choice in choices])


waits = seconds(0, 0, 1, 3, 15, 90)
_texts = st.sampled_from(["[[1],{}]", "[[2],{}]", "[[3],{}]"])
_priorities = st.sampled_from([0, 0, 0, 5, -5])
_expiries = st.none() | seconds(2, 20)


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

lanes = st.sets(st.sampled_from(TASKS), min_size=1).map(
    lambda tasks: {task: LANES[task] for task in sorted(tasks)}
)

switch_names = st.sampled_from(
    [(Scope.TASK, "x"), (Scope.TASK, "y"), (Scope.QUEUE, "io"), (Scope.QUEUE, "default")]
)
