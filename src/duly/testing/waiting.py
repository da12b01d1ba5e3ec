"""Waiting for a job's end in a virtual world: time passes until it comes, and nobody sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from duly.durations import Duration, duration
from duly.errors import ResultTimeout
from duly.job import FINISHED, Job
from duly.jobs import HasId, JobList, Jobs, id_of
from duly.testing.drive import Steps, adrive
from duly.testing.working import LONGEST, WorkingClock


class Patience:
    """What `job.result()` and `app.jobs.wait_all()` do with their time-outs."""

    def __init__(self, clock: WorkingClock) -> None:
        self._clock = clock

    def await_end(self, job_id: str, timeout: timedelta | None) -> Job | None:
        """Stands in for App.await_end."""
        self._clock.driver.drive(self.until_ended([job_id], timeout))
        return self._clock.app.look_up(job_id)

    async def aawait_end(self, job_id: str, timeout: timedelta | None) -> Job | None:
        """Stands in for App.aawait_end."""
        await adrive(self.until_ended([job_id], timeout))
        return await self._clock.app.alook_up(job_id)

    def until_ended(self, ids: Sequence[str], timeout: timedelta | None) -> Steps[None]:
        """Run what is due when it is due, until all have ended or the time is up."""
        clock = self._clock
        end = None if timeout is None else clock.now() + timeout
        if self.unfinished(ids):
            yield from clock.stretch(end, LONGEST, is_over=lambda: not self.unfinished(ids))
        if end is not None and self.unfinished(ids):
            clock.reach(end)

    def unfinished(self, ids: Iterable[str]) -> list[str]:
        """Those that may still end; a job that is gone will not."""
        jobs = [self._clock.app.look_up(job_id) for job_id in ids]
        return [job.id for job in jobs if job is not None and job.state not in FINISHED]


class VirtualJobs(Jobs):
    """`app.jobs` in a virtual world."""

    def __init__(self, clock: WorkingClock, patience: Patience) -> None:
        super().__init__(lambda: clock.app.store)
        self._clock = clock
        self._patience = patience

    def wait_all(self, jobs: Iterable[str | HasId], timeout: Duration | None = None) -> JobList:
        ids, limit = [id_of(job) for job in jobs], _limit(timeout)
        self._clock.driver.drive(self._patience.until_ended(ids, limit))
        self._refuse_unfinished(ids, limit)
        return super().wait_all(ids)

    async def await_all(self, jobs: Iterable[str | HasId], timeout: Duration | None = None) -> JobList:
        ids, limit = [id_of(job) for job in jobs], _limit(timeout)
        await adrive(self._patience.until_ended(ids, limit))
        self._refuse_unfinished(ids, limit)
        return await super().await_all(ids)

    def _refuse_unfinished(self, ids: Sequence[str], limit: timedelta | None) -> None:
        for job_id in self._patience.unfinished(ids):
            raise ResultTimeout(job_id, limit or timedelta(0))


def _limit(timeout: Duration | None) -> timedelta | None:
    return None if timeout is None else duration(timeout, what="timeout")
