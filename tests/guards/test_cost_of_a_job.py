"""What a job costs, counted instead of timed, so that a busy machine says the same as an idle one.

Two things are counted while one worker drains jobs that do nothing: the calls of Python functions in the
worker's own code, on all of its threads, and what is sent to the store. Somebody who lets every run make one
thing more, or who goes to the store for single jobs, is told here. Where a new feature is worth its price,
raise the bound together with it, and say so in the commit.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from tests.contract.arrange import HOUR, claim_all, put, request
from tests.stories.conftest import PLACES

import duly
from duly import Duly
from duly.job import Claim
from duly.lifecycle import Again, Settled
from duly.run import Run
from duly.stores.contract import Settlement
from duly.stores.drive import Operation, Steps
from duly.worker import inthreads, onloop, pump
from duly.worker.hand import Holding

JOBS: Final = 2_000
SLOTS: Final = 100
"""Enough that a batch is large at any pace."""

MOST_CALLS: Final = {"async": 36, "sync": 72}
"""Calls of functions per job: about 15 % more than were needed when this was written, 31.6 and 49 to 62."""
MOST_TALKS: Final = 40 + JOBS // 20
"""Conversations with the store for all jobs together; some belong to the worker's arrival and leave."""
MOST_STATEMENTS: Final = 30
"""Per conversation, whatever the size of its batch."""

ENGINE: Final = str(Path(duly.__file__).parent)
OWN: Final = (
    "worker", "executors", "kinds", "run.py", "codec.py", "context.py", "task.py", "pulse.py", "options.py"
)  # fmt: skip
"""What belongs to a run; not the store, nor what only a store asks."""


class Calls:
    """Counts calls of the worker's own functions, on every thread that begins meanwhile."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            if path.startswith(ENGINE) and path[len(ENGINE) + 1 :].startswith(OWN):
                self.by_name[f"{Path(path).stem}.{frame.f_code.co_qualname}"] += 1

    @property
    def per_job(self) -> float:
        """The mean."""
        return self.by_name.total() / JOBS

    def __repr__(self) -> str:
        return "\n".join(f"{count / JOBS:8.2f} {name}" for name, count in self.by_name.most_common(40))


@contextmanager
def counted() -> Generator[Calls, None, None]:
    calls = Calls()
    before, before_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(before_threads)


def app_with_jobs(url: str, kind: str, **options: Any) -> tuple[Duly, list[int]]:
    app, seen = Duly(url, **options), list[int]()

    async def on_the_loop(number: int) -> None:
        seen.append(number)

    def in_a_thread(number: int) -> None:
        seen.append(number)

    task = app.task(name="nothing")(on_the_loop if kind == "async" else in_a_thread)
    task.enqueue_many([((number,), {}) for number in range(JOBS)])
    return app, seen


def drained(kind: str) -> Calls:
    app, seen = app_with_jobs("memory://", kind)

    with counted() as calls:
        app.run(burst=True, concurrency=SLOTS)

    assert sorted(seen) == list(range(JOBS))
    return calls


@pytest.mark.parametrize("kind", list(MOST_CALLS))
def test_a_job_costs_the_worker_no_more_calls_than_it_did(kind: str) -> None:
    calls = drained(kind)

    assert calls.per_job <= MOST_CALLS[kind], f"{calls.per_job:.1f} calls a job:\n{calls!r}"


@pytest.mark.parametrize(("kind", "module"), [("async", onloop), ("sync", inthreads)])
def test_the_count_notices_a_run_that_makes_more_than_it_needs(
    kind: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = onloop.seat

    def seat_with_everything(holding: Holding) -> Run:
        """As it once was: what a run might want is made for every run."""
        run = seat(holding)
        assert run.binding is not None
        assert run.effects is not None
        return run

    monkeypatch.setattr(module, "seat", seat_with_everything)

    assert drained(kind).per_job > MOST_CALLS[kind]


class Talks:
    """Counts what is asked of a store, and the statements it takes."""

    def __init__(self, app: Duly) -> None:
        self.asked: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self._run: Callable[[Operation[Any]], Any] = app.store.run
        app.store.run = self.run  # type: ignore[method-assign]

    def run(self, operation: Operation[Any]) -> Any:
        self.asked[operation.name] += 1
        return self._run(replace(operation, steps=lambda: self._steps(operation)))

    def _steps(self, operation: Operation[Any]) -> Steps[Any]:
        steps = operation.steps()
        go_on = partial(next, steps)
        while True:
            try:
                statement = go_on()
            except StopIteration as end:
                return end.value
            self.statements[operation.name] += 1
            try:
                go_on = partial(steps.send, (yield statement))
            except sqlite3.Error as error:  # an operation may count on being told
                go_on = partial(steps.throw, error)


@pytest.mark.parametrize("store", list(PLACES))
def test_jobs_are_fetched_and_settled_in_batches(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PLACES[store](tmp_path)
    monkeypatch.setenv("DULY_NAMESPACE", place.namespace)
    app, seen = app_with_jobs(place.url, "async")
    talks = Talks(app)

    app.run(burst=True, concurrency=SLOTS)

    assert sorted(seen) == list(range(JOBS))
    assert talks.asked.total() <= MOST_TALKS, talks.asked
    assert talks.statements["turn"] <= MOST_STATEMENTS * talks.asked["turn"], talks.statements
    app.close()


def one_at_a_time(_pump: pump.Pump) -> int:
    return 1


def test_the_count_notices_jobs_that_are_fetched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app, seen = app_with_jobs("memory://", "async")
    talks = Talks(app)
    monkeypatch.setattr(pump.Pump, "_room", one_at_a_time)

    app.run(burst=True, concurrency=SLOTS)

    assert len(seen) == JOBS
    assert talks.asked.total() > MOST_TALKS


SCHEDULES: Final = 40
MOST_FOR_TICKS: Final = 15
"""Statements that end schedules with a request each, however many: 12 when this was written."""


def test_schedules_tick_in_batches_on_postgres(tmp_path: Path) -> None:
    place = PLACES["postgres"](tmp_path)
    app = Duly(place.url, namespace=place.namespace)
    put(app.store, *(request(f"nightly-{each}", perpetual=True) for each in range(SCHEDULES)))
    claims = claim_all(app.store)
    talks = Talks(app)

    answers = app.store.run(app.store.settle("w1", [ticked(claim) for claim in claims]))

    assert answers == [Settled.SETTLED] * SCHEDULES
    assert talks.statements["settle"] <= MOST_FOR_TICKS, talks.statements
    app.close()


def ticked(claim: Claim) -> Settlement:
    tick = replace(request(f"{claim.key}@1", task="report"), serial=f"schedule|{claim.key}")
    return Settlement(claim.fence, Again(after=HOUR), then=(tick,))
