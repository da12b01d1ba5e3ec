"""Time limits, and bodies that take their process along."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.stories import errands
from tests.stories.arrange import ended, events, until, working

from duly import Duly, State
from duly.errors import JobFailed


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- soft limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["thread", "loop", "child"])
def test_a_soft_limit_is_raised_in_the_body_and_no_except_exception_swallows_it(
    errand_app: Duly, place: str
) -> None:
    tasks: dict[str, Any] = {
        "thread": errands.burn_in_thread,
        "loop": errands.sleep_on_loop,
        "child": errands.sleep_in_child,
    }

    with working(errand_app):
        job = ended(errand_app, tasks[place].enqueue())

    assert (job.state, job.reason) == (State.FAILED, "soft limit exceeded")
    assert "SoftLimitExceeded" in (job.error or "")
    assert errands.lines("swallowed") == []


def test_a_body_may_tidy_up_at_its_soft_limit_and_end_well(errand_app: Duly) -> None:
    with working(errand_app):
        assert errands.tidy_up.enqueue().result(timeout="60s") == "tidied"


def test_a_soft_limit_can_be_tried_again_if_the_policy_lists_it(errand_app: Duly) -> None:
    with working(errand_app):
        job = ended(errand_app, errands.soft_then_well.enqueue())

    assert (job.state, errands.lines("attempts")[:2]) == (State.DONE, ["1", "2"])


# --- hard limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["sync", "async"])
def test_a_hard_limit_kills_a_body_that_resists_everything(errand_app: Duly, place: str) -> None:
    task: Any = errands.stubborn if place == "sync" else errands.stubborn_on_loop

    with working(errand_app):
        job = ended(errand_app, task.enqueue())

    assert (job.state, job.reason) == (State.FAILED, "hard limit exceeded")
    assert "hard limit of 0.3 s exceeded" in (job.error or "")
    assert job.crashes == 0
    assert not any(is_alive(int(pid)) for pid in errands.lines("stubborn"))  # none on a very busy machine


def test_a_hard_limited_job_is_tried_again_within_its_attempts(errand_app: Duly) -> None:
    with working(errand_app):
        job = ended(errand_app, errands.slow_at_first.enqueue())

    assert job.state is State.DONE
    assert len(events(job)) >= 2
    assert (set(events(job)[:-1]), events(job)[-1]) == ({"retry"}, "done")


# --- child processes ----------------------------------------------------------------------------


def test_a_body_in_a_child_process_gives_its_result_back_and_the_child_is_used_again(
    errand_app: Duly,
) -> None:
    with working(errand_app, concurrency=1):
        results = [errands.where.enqueue("a").result(timeout="60s") for _ in range(2)]
        results.append(errands.where_on_loop.enqueue("b").result(timeout="60s"))

    assert [word for word, _ in results] == ["a", "a", "b"]
    assert len({pid for _, pid in results}) == 1
    assert os.getpid() not in {pid for _, pid in results}


def test_progress_and_deferrals_come_home_from_a_child_process(errand_app: Duly) -> None:
    with working(errand_app):
        busy, put_off = errands.report.enqueue(), errands.put_off.enqueue()
        progress = until(lambda: errand_app.jobs.get(busy).progress)
        (errands.folder() / "reported").touch()
        until(lambda: errand_app.jobs.get(put_off).deferrals == 1)
        ended(errand_app, busy)

    assert "half way" in progress
    assert errand_app.jobs.get(put_off).attempt == 0


@pytest.mark.parametrize("how", ["SystemExit", "KeyboardInterrupt"])
def test_leaving_by_an_exception_is_a_failure_and_not_a_death(errand_app: Duly, how: str) -> None:
    with working(errand_app), pytest.raises(JobFailed, match=how):
        errands.leave.enqueue(how).result(timeout="60s")


# --- deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "evidence"), [("SIGKILL", "SIGKILL"), ("SIGSEGV", "SIGSEGV"), ("exit", "3")])
def test_a_child_that_dies_is_noticed_at_once_and_the_job_runs_again(
    errand_app: Duly, how: str, evidence: str
) -> None:
    with working(errand_app):
        job = ended(errand_app, errands.die.enqueue(how, 1))

    assert (job.state, job.crashes, job.attempt) == (State.DONE, 1, 0)
    assert events(job) == ["crash", "done"]
    assert evidence in job.history[0].note


def test_a_death_disturbs_no_other_job(errand_app: Duly) -> None:
    with working(errand_app, concurrency=3):
        beside = errands.slow_alone.enqueue("beside")
        in_thread = errands.slow.enqueue("in_thread")
        until(lambda: len(errands.lines("started")) == 2)
        dies = ended(errand_app, errands.die.enqueue("SIGKILL", 1))
        (errands.folder() / "beside").touch()
        (errands.folder() / "in_thread").touch()
        others = [ended(errand_app, beside), ended(errand_app, in_thread)]

    assert dies.state is State.DONE
    assert [(job.state, job.epoch, job.crashes) for job in others] == [(State.DONE, 1, 0)] * 2


def test_a_poison_task_is_put_aside_after_three_deaths_with_the_evidence(errand_app: Duly) -> None:
    with working(errand_app):
        job = ended(errand_app, errands.die.enqueue("SIGKILL", 99))
        after = ended(errand_app, errands.quick.enqueue(1))

    assert (job.state, job.reason, job.crashes) == (State.FAILED, "crashed too often", 3)
    assert "SIGKILL" in (job.error or "")
    assert [line.event for line in job.history] == ["crash", "crash", "fail"]
    assert after.state is State.DONE
    assert len(errands.lines("deaths")) == 3


def test_an_operator_may_give_a_poison_task_another_chance(errand_app: Duly) -> None:
    with working(errand_app):
        handle = errands.die.enqueue("SIGKILL", 3)
        assert ended(errand_app, handle).state is State.FAILED
        errand_app.jobs.retry(handle)
        job = ended(errand_app, handle)

    assert (job.state, job.crashes) == (State.DONE, 0)
