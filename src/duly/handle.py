"""What `enqueue` gives back: a hold on one job, by its id and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from duly import codec
from duly.durations import Duration, duration
from duly.errors import JobCancelled, JobFailed, JobSkipped, ResultNotKept, ResultTimeout, UnknownJob
from duly.job import FINISHED, Decision, Job, State
from duly.stores.contract import Placed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Desk(Protocol):
    """What a handle asks of the application."""

    def look_up(self, job_id: str) -> Job | None: ...
    async def alook_up(self, job_id: str) -> Job | None: ...
    def cancel_job(self, job_id: str) -> bool: ...
    async def acancel_job(self, job_id: str) -> bool: ...
    def await_end(self, job_id: str, timeout: timedelta | None) -> Job | None: ...
    async def aawait_end(self, job_id: str, timeout: timedelta | None) -> Job | None: ...


class Origin(NamedTuple):
    """What the handles of one call have in common."""

    desk: Desk
    key: str | None
    keeps_result: bool


class Handle(Generic[T]):
    """One job: `id key generation decision`, its state, its result, a way to cancel it.

    It keeps what it is made of as it comes: to take it apart took longer than to make a thousand of them.
    """

    __slots__ = ("__weakref__", "_origin", "_placed")

    def __init__(self, origin: Origin, placed: Placed) -> None:
        self._origin = origin
        self._placed = placed

    @property
    def id(self) -> str:
        """The job's id, which stays the same for good."""
        return self._placed.id

    @property
    def key(self) -> str | None:
        """The key it was asked for with."""
        return self._origin.key

    @property
    def generation(self) -> int:
        """Where it stands among all requests; 0 where that is yet to be decided."""
        return self._placed.generation

    @property
    def decision(self) -> Decision:
        """What became of the request."""
        return self._placed.decision

    @property
    def _desk(self) -> Desk:
        return self._origin.desk

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.decision}>"

    def state(self) -> State:
        """Where the job is now."""
        return self._seen(self._desk.look_up(self.id)).state

    async def astate(self) -> State:
        """The async twin of state."""
        return self._seen(await self._desk.alook_up(self.id)).state

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the job's end and return what its body returned; raises at once where none can come."""
        self._refuse_without_result()
        limit = _limit(timeout)
        return self._unpacked(self._desk.await_end(self.id, limit), limit)

    async def aresult(self, timeout: Duration | None = None) -> T:
        """The async twin of result."""
        self._refuse_without_result()
        limit = _limit(timeout)
        return self._unpacked(await self._desk.aawait_end(self.id, limit), limit)

    def cancel(self) -> bool:
        """Cancel the job, or ask it to stop if it runs.

        False when it had ended already, or when a worker is just carrying it from an outbox to the store:
        ask again then.
        """
        return self._desk.cancel_job(self.id)

    async def acancel(self) -> bool:
        """The async twin of cancel."""
        return await self._desk.acancel_job(self.id)

    def _refuse_without_result(self) -> None:
        if not self._origin.keeps_result:
            raise ResultNotKept(f"Job {self.id} keeps no result. Declare its task with keep_result='1h'.")

    def _seen(self, job: Job | None) -> Job:
        if job is None:
            raise UnknownJob(self.id)
        return job

    def _unpacked(self, job: Job | None, limit: timedelta | None) -> T:
        value: T = result_of(self._seen(job), limit or timedelta(0))
        return value


def _limit(timeout: Duration | None) -> timedelta | None:
    return None if timeout is None else duration(timeout, what="timeout")


def result_of(job: Job, waited: timedelta) -> Any:
    """The value of a job that is done; an error that names what happened for all others."""
    match job.state:
        case State.DONE if job.result is not None:
            return codec.unpack_value(job.result)
        case State.DONE:
            raise ResultNotKept(f"Job {job.id} is done, but its result is no longer kept. Raise keep_result.")
        case State.FAILED:
            raise JobFailed(f"Job {job.id} {job.reason or 'failed'}:\n{job.error}")
        case State.CANCELLED:
            raise JobCancelled(f"Job {job.id} was cancelled: {job.reason}")
        case State.SKIPPED:
            raise JobSkipped(f"Job {job.id} was skipped: {job.reason}")
        case _:
            assert job.state not in FINISHED
            raise ResultTimeout(job.id, waited)
