"""Bodies in threads: run, interrupted, stuck."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.executors.errands import PoolClosed, Stopped
from duly.executors.threads import Threads

PATIENTLY = timedelta(minutes=1)


class Outcomes:
    """Collects what `done` is called with."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def __call__(self, result: Any, failure: BaseException | None) -> None:
        self._queue.put((result, failure))

    def next(self) -> tuple[Any, BaseException | None]:
        return self._queue.get(timeout=60)


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def threads() -> Iterator[Threads]:
    pool = Threads(1)
    yield pool
    assert pool.close(grace=PATIENTLY) == []


def spin() -> None:
    """Wait in Python code, which an interrupt can reach, for longer than any test."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        time.sleep(0.001)


def test_a_body_reports_its_result_from_its_own_thread(threads: Threads, outcomes: Outcomes) -> None:
    threads.submit(threading.get_ident, outcomes)

    result, failure = outcomes.next()

    assert failure is None
    assert result not in (None, threading.get_ident())


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_body_raises_is_its_outcome_and_the_thread_goes_on(
    threads: Threads, outcomes: Outcomes, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error

    threads.submit(fail, outcomes)
    threads.submit(lambda: "next", outcomes)

    assert isinstance(outcomes.next()[1], error)
    assert outcomes.next() == ("next", None)


def test_an_exception_that_a_body_returns_is_a_result(threads: Threads, outcomes: Outcomes) -> None:
    value = ValueError("a value")

    threads.submit(lambda: value, outcomes)

    assert outcomes.next() == (value, None)


def test_a_body_sees_the_context_its_caller_bound_to_it(threads: Threads, outcomes: Outcomes) -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")
    tenant.set("acme")
    context = contextvars.copy_context()

    threads.submit(lambda: context.run(tenant.get), outcomes)
    threads.submit(tenant.get, outcomes)

    assert outcomes.next() == ("acme", None)
    assert outcomes.next() == ("nobody", None)


def test_threads_are_started_only_when_there_is_work_for_them(outcomes: Outcomes) -> None:
    freed = threading.Semaphore(0)
    threads = Threads(8, freed=freed.release)
    served: set[int] = set()

    for _ in range(5):
        threads.submit(threading.get_ident, outcomes)
        served.add(outcomes.next()[0])
        assert freed.acquire(timeout=60)

    assert len(served) == 1
    assert threads.close(grace=PATIENTLY) == []


def test_as_many_bodies_run_at_once_as_there_are_threads(outcomes: Outcomes) -> None:
    threads = Threads(4)
    everybody = threading.Barrier(4)

    for _ in range(4):
        threads.submit(lambda: everybody.wait(60), outcomes)

    assert sorted(outcomes.next()[0] for _ in range(4)) == [0, 1, 2, 3]
    assert threads.close(grace=PATIENTLY) == []


class Together(deque[None]):
    """Counts bodies; whoever brings one waits there for the other, who brings one too."""

    def __init__(self, company: threading.Barrier) -> None:
        super().__init__()
        self._company = company

    def append(self, one: None) -> None:
        self._company.wait(60)
        super().append(one)


def test_bodies_that_come_together_need_not_wait_for_each_other(
    outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds one thread and no body; together they need two threads."""
    freed = threading.Event()
    threads = Threads(2, freed=freed.set)
    threads.submit(lambda: "served", outcomes)
    assert outcomes.next() == ("served", None)
    assert freed.wait(60)
    monkeypatch.setattr(threads, "_unfinished", Together(threading.Barrier(2)))
    both = threading.Barrier(2)

    callers = [
        threading.Thread(target=threads.submit, args=(lambda: both.wait(20), outcomes)) for _ in range(2)
    ]
    for caller in callers:
        caller.start()

    assert [outcomes.next()[1] for _ in callers] == [None, None]
    assert threads.close(grace=PATIENTLY) == []


def _run_out_of_threads(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_body_for_which_no_thread_can_be_started_is_not_taken(
    outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(2)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _run_out_of_threads)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.submit(lambda: "not taken", outcomes)
    counted = len(threads._unfinished)  # pyright: ignore[reportPrivateUsage]
    threads.submit(lambda: "taken", outcomes)

    assert counted == 0
    assert outcomes.next() == ("taken", None)
    assert threads.close(grace=PATIENTLY) == []


def test_a_body_need_not_wait_for_another_whose_outcome_takes_its_time(outcomes: Outcomes) -> None:
    """A commit, for instance."""
    threads = Threads(2)
    commits, has_committed = threading.Event(), threading.Event()

    def commit(_result: Any, _failure: BaseException | None) -> None:
        commits.set()
        has_committed.wait(60)

    threads.submit(lambda: None, commit)
    assert commits.wait(60)
    threads.submit(has_committed.is_set, outcomes)
    is_committed = outcomes.next()[0]
    has_committed.set()

    assert not is_committed
    assert threads.close(grace=PATIENTLY) == []


def test_an_interrupt_is_raised_in_the_body(threads: Threads, outcomes: Outcomes) -> None:
    begun = threading.Event()

    def body() -> None:
        begun.set()
        spin()

    token = threads.submit(body, outcomes)
    begun.wait(60)

    assert threads.interrupt(token, LeaseLost)
    assert isinstance(outcomes.next()[1], LeaseLost)


def test_a_body_may_catch_an_interrupt_and_tidy_up(threads: Threads, outcomes: Outcomes) -> None:
    begun = threading.Event()

    def body() -> str:
        begun.set()
        try:
            spin()
        except LeaseLost:
            return "tidied up"
        return "nothing came"

    token = threads.submit(body, outcomes)
    begun.wait(60)
    threads.interrupt(token, LeaseLost)

    assert outcomes.next() == ("tidied up", None)


def test_a_body_is_interrupted_by_its_limit_and_by_its_lost_lease_but_no_third_time(
    threads: Threads, outcomes: Outcomes
) -> None:
    step: queue.SimpleQueue[str] = queue.SimpleQueue()
    finish = threading.Event()

    def body() -> str:
        for name, error in (("begun", SoftLimitExceeded), ("limited", LeaseLost)):
            step.put(name)
            with contextlib.suppress(error):
                spin()
        step.put("lost")
        finish.wait(60)
        return "ended by itself"

    token = threads.submit(body, outcomes)
    answers: list[bool] = []
    for error in (SoftLimitExceeded, LeaseLost, LeaseLost):
        step.get(timeout=60)
        answers.append(threads.interrupt(token, error))
    finish.set()

    assert answers == [True, True, False]
    assert outcomes.next() == ("ended by itself", None)


def test_a_body_interrupted_before_it_begins_never_begins(threads: Threads, outcomes: Outcomes) -> None:
    go_on = threading.Event()
    threads.submit(lambda: go_on.wait(60), outcomes)
    begun: list[str] = []
    waiting = threads.submit(lambda: begun.append("begun"), outcomes)

    answer = threads.interrupt(waiting, LeaseLost)
    go_on.set()
    outcomes.next()

    assert answer
    assert isinstance(outcomes.next()[1], LeaseLost)
    assert begun == []


def test_an_interrupt_after_the_end_is_too_late(threads: Threads, outcomes: Outcomes) -> None:
    token = threads.submit(lambda: "ended", outcomes)
    outcomes.next()

    assert not threads.interrupt(token, LeaseLost)


def test_a_soft_limit_counts_from_the_beginning_of_the_body(threads: Threads, outcomes: Outcomes) -> None:
    go_on = threading.Event()
    threads.submit(lambda: go_on.wait(60), outcomes)
    threads.submit(lambda: "quick", outcomes, soft_limit=timedelta(minutes=1))
    limited = threads.submit(spin, outcomes, soft_limit=timedelta(seconds=0.1))

    assert limited.thread is None
    go_on.set()
    outcomes.next()

    assert outcomes.next() == ("quick", None)
    assert isinstance(outcomes.next()[1], SoftLimitExceeded)


def test_closing_names_the_bodies_that_are_stuck(outcomes: Outcomes) -> None:
    threads = Threads(2)
    go_on, begun = threading.Event(), threading.Event()

    def body() -> None:
        begun.set()
        go_on.wait(60)

    stuck = threads.submit(body, outcomes)
    begun.wait(60)

    still_running = threads.close(grace=timedelta(0))
    go_on.set()
    outcomes.next()

    assert still_running == [stuck]
    assert threads.close(grace=PATIENTLY) == []


def test_closing_calls_off_what_has_not_begun(outcomes: Outcomes) -> None:
    threads = Threads(1)
    go_on, begun = threading.Event(), threading.Event()

    def body() -> None:
        begun.set()
        go_on.wait(60)

    threads.submit(body, outcomes)
    begun.wait(60)
    threads.submit(lambda: "begun", outcomes)

    threads.close(grace=timedelta(0))

    assert isinstance(outcomes.next()[1], Stopped)
    go_on.set()
    assert outcomes.next() == (None, None)


def test_a_closed_pool_takes_nothing(outcomes: Outcomes) -> None:
    threads = Threads(1)
    threads.close(grace=PATIENTLY)

    with pytest.raises(PoolClosed, match="Open a new one"):
        threads.submit(lambda: None, outcomes)


@pytest.mark.parametrize("served_before", [0, 1])
def test_what_comes_while_the_pool_closes_is_called_off(
    outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch, served_before: int
) -> None:
    threads = Threads(2)
    for _ in range(served_before):
        threads.submit(lambda: "served", outcomes)
        assert outcomes.next() == ("served", None)
    check = threads._check_open  # pyright: ignore[reportPrivateUsage]

    def check_and_be_overtaken() -> None:
        check()
        assert threads.close(grace=PATIENTLY) == []

    monkeypatch.setattr(threads, "_check_open", check_and_be_overtaken)

    threads.submit(lambda: "begun", outcomes)

    assert isinstance(outcomes.next()[1], Stopped)


def test_all_threads_end_though_a_body_came_after_the_word_to_end(
    outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever calls that body off finds the word in the queue and leaves it there; so does each thread."""
    threads = Threads(3)
    everybody, go_on = threading.Barrier(4), threading.Event()
    serving: list[threading.Thread] = []

    def body() -> None:
        serving.append(threading.current_thread())
        everybody.wait(60)
        go_on.wait(60)

    for _ in range(3):
        threads.submit(body, outcomes)
    everybody.wait(60)
    monkeypatch.setattr(threads, "_check_open", lambda: threads.close(grace=timedelta(0)))

    threads.submit(lambda: "begun", outcomes)
    called_off = outcomes.next()
    go_on.set()
    for thread in serving:
        thread.join(20)

    assert isinstance(called_off[1], Stopped)
    assert [thread.is_alive() for thread in serving] == [False, False, False]


class CountedLock:
    """A lock of the pool's own that counts how often it is taken."""

    taken: ClassVar[int]

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        type(self).taken += 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_body_takes_no_lock_that_others_take(outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is handed over to a thread without the interpreter makes every body wait for every other."""
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", CountedLock)
        threads = Threads(4)
    CountedLock.taken = 0
    everybody = threading.Barrier(4)
    for _ in range(4):  # all threads are started
        threads.submit(lambda: everybody.wait(60), outcomes)
    for _ in range(4):
        outcomes.next()
    to_start_them = CountedLock.taken

    for _ in range(100):
        threads.submit(lambda: None, outcomes)
    for _ in range(100):
        outcomes.next()

    assert to_start_them
    assert CountedLock.taken == to_start_them
    assert threads.close(grace=PATIENTLY) == []


def _refuse(_result: Any, _failure: BaseException | None) -> None:
    raise LookupError("nobody to tell")


def test_an_outcome_that_cannot_be_reported_is_the_next_callers_news(
    outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    threads = Threads(1)
    go_on = threading.Event()
    threads.submit(lambda: go_on.wait(60), _refuse)
    threads.submit(lambda: "goes on", outcomes)
    go_on.set()
    outcomes.next()

    with pytest.raises(PoolClosed, match="nobody to tell"):
        threads.submit(lambda: None, outcomes)
    assert "could not be reported" in caplog.text
    assert threads.close(grace=PATIENTLY) == []


def test_an_outcome_that_cannot_be_reported_breaks_the_pool_at_once() -> None:
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    threads = Threads(1, fail=failures.put)

    threads.submit(lambda: None, _refuse)

    assert isinstance(failures.get(timeout=60), LookupError)
    assert threads.close(grace=PATIENTLY) == []


def test_a_thread_that_dies_breaks_the_pool_at_once(
    outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    threads = Threads(1, fail=failures.put)
    threads.submit(lambda: "served", outcomes)
    outcomes.next()

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _run_out_of_threads)
        limited = threads.submit(lambda: None, outcomes, soft_limit=PATIENTLY)
        failure = failures.get(timeout=60)

    assert "can't start" in str(failure)
    assert threads.close(grace=PATIENTLY) == [limited]


def test_a_pool_that_is_being_closed_breaks_for_nobody() -> None:
    failures: list[BaseException] = []
    threads = Threads(1, fail=failures.append)
    go_on, begun = threading.Event(), threading.Event()

    def body() -> None:
        begun.set()
        go_on.wait(60)

    threads.submit(body, _refuse)
    begun.wait(60)
    threads.close(grace=timedelta(0))
    go_on.set()

    assert threads.close(grace=PATIENTLY) == []
    assert failures == []
