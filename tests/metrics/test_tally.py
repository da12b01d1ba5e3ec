"""What is counted in a process, and that it cannot grow without end."""

from __future__ import annotations

from duly.events import Event
from duly.metrics.tally import LANES, OTHER, TASKS, Tally, Times

DONE = Event("done", "mail", "1", None, 1, 1, seconds=0.3, queue="letters", wait=2.0)


def test_runs_are_counted_by_task_queue_and_outcome() -> None:
    tally = Tally()

    for kind in ("done", "done", "fail"):
        tally(DONE._replace(kind=kind))

    assert tally.runs == {("mail", "letters", "done"): 2, ("mail", "letters", "fail"): 1}


def test_times_and_waits_are_kept_by_task() -> None:
    tally = Tally()

    tally(DONE)
    tally(DONE._replace(wait=None))

    assert (sum(tally.durations["mail"].buckets), tally.durations["mail"].total) == (2, 0.6)
    assert (sum(tally.waits["mail"].buckets), tally.waits["mail"].total) == (1, 2.0)


def test_what_was_handed_back_unstarted_is_no_run() -> None:
    tally = Tally()

    tally(DONE._replace(kind="release", seconds=None))

    assert not tally.runs
    assert not tally.durations


def test_a_time_on_a_bound_belongs_below_it() -> None:
    times = Times()

    times.add(0.01)
    times.add(0.011)
    times.add(7200.0)

    assert (times.buckets[0], times.buckets[1], times.buckets[-1]) == (1, 1, 1)


def test_names_without_end_share_one_place() -> None:
    tally = Tally()

    for number in range(LANES + 50):
        tally(DONE._replace(task=f"task{number}", queue=f"queue{number}"))

    assert len(tally.runs) == LANES + 1
    assert tally.runs[OTHER, OTHER, "done"] == 50
    assert len(tally.durations) == len(tally.waits) == TASKS + 1
    assert sum(tally.durations[OTHER].buckets) == LANES + 50 - TASKS
