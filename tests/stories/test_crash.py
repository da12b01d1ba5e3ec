"""Workers that are killed, frozen and stopped: real processes on one store."""

from __future__ import annotations

import signal
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from tests.stories import errands
from tests.stories.arrange import ended, events, in_state, until
from tests.stories.processes import SHORT, Crew, is_running

from duly import State

pytestmark = pytest.mark.chaos

LEASE = 2.0
SLACK = 40.0  # of a busy machine


def started() -> list[list[str]]:
    """name, pid, epoch and attempt of every body that began."""
    return [line.split() for line in errands.lines("started")]


def task_of(place: str) -> Any:
    return {"thread": errands.slow, "loop": errands.slow_on_loop, "child": errands.slow_alone}[place]


# --- killed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["thread", "loop", "child"])
def test_a_killed_workers_job_runs_again_within_two_leases(crew: Crew, place: str) -> None:
    victim = crew.start(**SHORT)
    handle = task_of(place).enqueue("again")
    until(started)
    victim.kill()
    killed = time.monotonic()
    crew.start()

    until(lambda: len(started()) == 2)
    took = time.monotonic() - killed
    crew.let("again")
    job = ended(crew.app, handle)

    assert took < 2 * LEASE + SLACK
    assert (job.state, job.epoch, job.attempt) == (State.DONE, 2, 0)
    assert events(job) == ["lease ran out", "done"]
    assert job.crashes == (1 if place == "child" else 0)  # only a death in isolation counts
    assert "lease ran out on" in job.history[0].note


def test_children_die_with_their_worker(crew: Crew) -> None:
    worker = crew.start()
    errands.slow_alone.enqueue("never")
    [[_, pid, *_]] = until(started)

    worker.kill()

    until(lambda: not is_running(int(pid)))


def test_a_killed_worker_loses_nothing_that_it_held(crew: Crew) -> None:
    victim = crew.start("-c", "2", **SHORT)
    handles = errands.quick.enqueue_many([((n,), {}) for n in range(300)])
    until(lambda: len(errands.lines("quick")) > 100)
    victim.kill()

    crew.start()
    jobs = crew.app.jobs.wait_all(handles, timeout="60s")

    runs = Counter(errands.lines("quick"))
    assert {job.state for job in jobs} == {State.DONE}
    assert set(runs) == {str(n) for n in range(300)}


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)  # about the defaults, which know no store
def test_by_default_a_killed_workers_job_runs_again_after_its_lease(crew: Crew) -> None:
    victim = crew.start()
    errands.slow.enqueue("never")
    until(started)
    crew.start()
    victim.kill()

    until(lambda: len(started()) == 2)  # the lease is half as long as this waits


def test_a_body_that_may_start_once_is_given_up_after_a_kill(crew: Crew) -> None:
    victim = crew.start(**SHORT)
    handle = errands.once.enqueue("never")
    until(lambda: errands.lines("started"))
    victim.kill()

    crew.start()
    job = in_state(crew.app, handle, "failed")

    assert (job.reason, errands.lines("started")) == ("interrupted, outcome unknown", ["never"])


POINTS = {
    "after_claim": (0, ["lease ran out", "done"]),
    "before_body": (0, ["lease ran out", "done"]),
    "after_body": (1, ["lease ran out", "done"]),
    "before_settle": (1, ["lease ran out", "done"]),
    "after_settle": (1, ["done"]),
}


def is_for_all(place: str, point: str) -> bool:
    """In a file every point; on servers the one where most is at stake, the others for the thorough."""
    return place == "sqlite" or point == "before_settle"


@pytest.mark.parametrize(
    ("crew", "point"),
    [
        pytest.param(place, point, marks=() if is_for_all(place, point) else pytest.mark.thorough)
        for place in ("sqlite", "postgres", "redis")
        for point in POINTS
    ],
    indirect=["crew"],
)
def test_a_worker_that_dies_at_any_point_neither_loses_its_job_nor_counts_a_crash(
    crew: Crew, point: str
) -> None:
    runs, history = POINTS[point]
    handle = errands.quick.enqueue(7)
    victim = crew.launch(DULY_FAILPOINTS=f"{point}=exit", **SHORT)
    code = victim.wait()
    before = len(errands.lines("quick"))

    crew.start()
    job = ended(crew.app, handle)

    assert (code, before) == (137, runs)
    assert (job.state, job.crashes, job.attempt, events(job)) == (State.DONE, 0, 0, history)


def test_a_body_that_kills_its_worker_runs_alone_next_and_is_put_aside(crew: Crew) -> None:
    victim = crew.start(**SHORT)
    handle = errands.take_the_worker_along.enqueue()
    assert victim.wait() == -signal.SIGKILL

    survivor = crew.start()
    job = ended(crew.app, handle)
    after = ended(crew.app, errands.quick.enqueue(1))

    assert (job.state, job.reason, job.crashes) == (State.FAILED, "crashed too often", 3)
    assert events(job) == ["lease ran out", "crash", "crash", "fail"]
    assert "SIGKILL" in (job.error or "")
    assert (len(errands.lines("deaths")), after.state) == (4, State.DONE)
    assert after.history[0].worker != ""
    assert is_running(survivor.pid)


# --- frozen -------------------------------------------------------------------------------------


def test_a_frozen_worker_that_wakes_after_its_lease_changes_nothing(crew: Crew) -> None:
    frozen = crew.start(**SHORT)
    handle = errands.slow.enqueue("done")
    until(started)
    crew.freeze(frozen)
    crew.start()
    until(lambda: len(started()) == 2)
    crew.let("done")
    ended(crew.app, handle)

    frozen.thaw()
    until(lambda: len(errands.lines("finished")) == 2)
    until(lambda: "refused" in events(crew.app.jobs.get(handle)))

    job = crew.app.jobs.get(handle)
    assert (job.state, job.epoch) == (State.DONE, 2)
    assert events(job) == ["lease ran out", "done", "refused"]
    assert "epoch 1" in job.history[-1].note


def test_a_body_on_the_loop_is_stopped_when_its_worker_wakes_without_a_lease(crew: Crew) -> None:
    frozen = crew.start(**SHORT)
    handle = errands.slow_on_loop.enqueue("done")
    until(started)
    crew.freeze(frozen)
    crew.start()
    until(lambda: len(started()) == 2)

    frozen.thaw()
    until(lambda: "stopping" in frozen.log)
    crew.let("done")
    job = ended(crew.app, handle)

    assert job.state is State.DONE
    assert [line.split()[2] for line in errands.lines("finished")] == ["2"]


def test_what_a_frozen_worker_had_not_started_runs_only_elsewhere(crew: Crew) -> None:
    frozen = crew.start("-c", "1", DULY_LEASE="5s")
    before = errands.quick.enqueue_many([((n,), {}) for n in range(200)])
    errands.slow.enqueue("hold")
    after = errands.quick.enqueue_many([((n,), {}) for n in range(200, 400)])
    until(started)
    until(lambda: crew.app.jobs.count(state="done") == len(before))  # what ran is settled
    held = crew.app.jobs.count(state="running")
    crew.freeze(frozen)
    crew.let("hold")
    crew.start()
    crew.app.jobs.wait_all([*before, *after], timeout="60s")

    frozen.thaw()
    until(lambda: len(errands.lines("finished")) == 2)
    frozen.send(signal.SIGTERM)

    assert frozen.wait() == 0
    assert held > 1  # it did hold unstarted claims
    assert Counter(errands.lines("quick")) == {str(n): 1 for n in range(400)}


def test_a_short_freeze_goes_unnoticed(crew: Crew) -> None:
    frozen = crew.start()
    crew.start()
    handle = errands.slow.enqueue("done")
    until(started)

    for _ in range(3):
        crew.freeze(frozen)
        time.sleep(0.2)
        frozen.thaw()
    crew.let("done")

    assert (ended(crew.app, handle).epoch, len(started())) == (1, 1)


# --- stopped ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_work_finish_and_takes_nothing_more(crew: Crew, number: signal.Signals) -> None:
    worker = crew.start("-c", "1")
    runs = errands.slow.enqueue("done")
    until(started)
    waits = errands.quick.enqueue(1)

    worker.send(number)
    time.sleep(0.1)
    still = is_running(worker.pid)
    crew.let("done")

    assert (worker.wait(), still) == (0, True)
    assert (runs.state(), waits.state()) == (State.DONE, State.WAITING)


@pytest.mark.parametrize("place", ["thread", "loop", "child"])
def test_a_second_signal_hands_running_work_back_at_once(crew: Crew, place: str) -> None:
    worker = crew.start()
    handle = task_of(place).enqueue("never")
    until(started)

    worker.send(signal.SIGTERM)
    time.sleep(0.1)  # two signals at once are one
    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    job = crew.app.jobs.get(handle)
    assert (job.state, job.attempt, job.crashes) == (State.WAITING, 0, 0)
    assert events(job) == ["release"]


def test_work_is_handed_back_only_when_the_process_that_ran_it_is_dead(crew: Crew) -> None:
    worker = crew.start()
    handle = errands.resist.enqueue()
    [pid] = until(lambda: errands.lines("resisting"))

    worker.send(signal.SIGTERM)
    time.sleep(0.1)
    worker.send(signal.SIGTERM)
    job = in_state(crew.app, handle, "waiting")

    assert not is_running(int(pid))
    assert (job.attempt, job.crashes, events(job)) == (0, 0, ["release"])
    assert worker.wait() == 0


@pytest.mark.parametrize("milliseconds", [0, 60, 150, 300])
def test_a_signal_during_the_start_loses_nothing(crew: Crew, milliseconds: int) -> None:
    handle = errands.quick.enqueue(1)
    worker = crew.launch()

    time.sleep(milliseconds / 1000)
    worker.send(signal.SIGTERM)

    assert worker.wait() in (0, -signal.SIGTERM)
    assert handle.state() in (State.WAITING, State.DONE)
    assert crew.app.jobs.count(state="running") == 0


def test_a_worker_starts_afresh_after_so_many_jobs(crew: Crew) -> None:
    worker = crew.start("-c", "1", "--max-jobs", "5")

    for _ in range(2):  # those that wait at once may all run before the worker counts them
        handles = [errands.where_am_i.enqueue() for _ in range(10)]
        crew.app.jobs.wait_all(handles, timeout="60s")

    assert is_running(worker.pid)
    assert len(set(errands.lines("incarnations"))) > 1


# --- together -----------------------------------------------------------------------------------


def test_a_worker_in_another_process_hears_of_work_at_once(crew: Crew) -> None:
    crew.start(DULY_POLL="10m")

    for n in range(6):  # none would be found by looking while we wait
        assert ended(crew.app, errands.quick.enqueue(n)).state is State.DONE


def test_processes_share_the_ticks_of_a_schedule_over_a_kill(crew: Crew) -> None:
    workers = [crew.start(STORY_TICKS="100ms", **lease) for lease in (SHORT, {}, {})]
    until(lambda: len(errands.lines("ticks")) >= 5)
    workers[0].kill()
    seen = len(errands.lines("ticks"))
    until(lambda: len(errands.lines("ticks")) >= seen + 25)
    for worker in workers[1:]:
        worker.send(signal.SIGTERM)
        worker.wait()

    ticks = Counter(errands.lines("ticks"))
    moments = sorted(float(tick) for tick in ticks)
    assert {round(later - earlier, 3) for earlier, later in pairwise(moments)} == {0.1}
    assert sum(ticks.values()) - len(ticks) <= 1  # the one that the killed worker may have been running
