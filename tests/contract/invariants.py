"""What must hold after every step, whatever the steps were. A `Watch` compares each look with the last."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from duly.job import FINISHED, Job, State


class Watch:
    """Looks at all jobs after each step and remembers what it saw."""

    def __init__(self) -> None:
        self._last: dict[str, Job] = {}
        self._highest = 0

    def look(self, jobs: Iterable[Job], now: datetime, per_key: Mapping[str, int]) -> None:
        """`per_key` says for each serial how many runs may be in progress; 0 is no limit."""
        seen = {job.id: job for job in jobs}
        _parked_jobs_have_somebody_to_wait_for(seen)
        _one_job_waits_for_a_key(seen)
        _leases_stay_within_the_limit(seen, now, per_key)
        self._counters_only_rise(seen)
        self._finished_is_final(seen)
        self._history_only_grows(seen)
        self._last = seen
        self._highest = max([self._highest, *(job.generation for job in seen.values())])

    def _counters_only_rise(self, seen: Mapping[str, Job]) -> None:
        for job in seen.values():
            before = self._last.get(job.id)
            if before is None or before.generation != job.generation:
                assert job.generation > self._highest, f"{job.id} got an old generation: {job.generation}"
            if before is not None:
                assert job.epoch >= before.epoch, f"the epoch of {job.id} fell"
                assert job.cycle >= before.cycle, f"the cycle of {job.id} fell"

    def _finished_is_final(self, seen: Mapping[str, Job]) -> None:
        for job_id, before in self._last.items():
            job = seen.get(job_id)
            if job is None or before.state not in FINISHED or job.generation != before.generation:
                continue
            assert (job.state, job.finished_at, job.reason) == (
                before.state,
                before.finished_at,
                before.reason,
            ), f"{job_id} had ended as {before.state}"

    def _history_only_grows(self, seen: Mapping[str, Job]) -> None:
        for job_id, before in self._last.items():
            if job_id in seen:
                assert seen[job_id].history[: len(before.history)] == before.history


def _parked_jobs_have_somebody_to_wait_for(seen: Mapping[str, Job]) -> None:
    """Else nobody would ever promote them."""
    leading = {
        job.serial
        for job in seen.values()
        if job.state is State.RUNNING or (job.state is State.WAITING and not job.is_parked)
    }
    for job in seen.values():
        assert not job.is_parked or job.state is State.WAITING, f"{job.id} is {job.state} and parked"
        assert not job.is_parked or job.serial in leading, f"{job.id} is parked behind nobody"


def _one_job_waits_for_a_key(seen: Mapping[str, Job]) -> None:
    """Two only when the older was taken back from a dead worker, and is lent before the newer."""
    waiting: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job in seen.values():
        if job.state is State.WAITING and job.key is not None:
            waiting[job.task, job.key].append(job)
    for key, jobs in waiting.items():
        ordinary = [job for job in jobs if not _was_recovered(job)]
        assert len(ordinary) <= 1, f"{[job.id for job in ordinary]} wait for {key}"


def _was_recovered(job: Job) -> bool:
    return any(line.event == "lease ran out" and line.epoch == job.epoch for line in job.history)


def _leases_stay_within_the_limit(seen: Mapping[str, Job], now: datetime, per_key: Mapping[str, int]) -> None:
    leases = Counter(
        job.serial
        for job in seen.values()
        if job.serial is not None and job.ready_at is not None
        if job.state is State.RUNNING and job.ready_at > now
    )
    for serial, count in leases.items():
        limit = per_key.get(serial or "", 1)
        assert limit == 0 or count <= limit, f"{count} runs of {serial}, {limit} allowed"
