"""What `enqueue` gives back on Celery."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from celery.exceptions import TimeoutError as CeleryTimeout

from duly import codec
from duly.durations import Duration, duration
from duly.errors import DulyError, JobCancelled, JobFailed, ResultNotKept, ResultTimeout
from duly.handle import Handle, Origin
from duly.job import Decision, State
from duly.stores.contract import Placed

T = TypeVar("T")

STATES: Final = {
    "PENDING": State.WAITING,
    "RECEIVED": State.WAITING,
    "RETRY": State.WAITING,
    "STARTED": State.RUNNING,
    "SUCCESS": State.DONE,
    "FAILURE": State.FAILED,
    "REVOKED": State.CANCELLED,
}


class Sent(Handle[T]):
    """A message of Celery's. Its state is known only where its task keeps results."""

    def __init__(
        self, celery: Any, job_id: str, key: str | None, decision: Decision, *, keeps_result: bool
    ) -> None:
        desk: Any = None  # Celery's result backend is asked instead
        super().__init__(Origin(desk, key, keeps_result), Placed(job_id, 0, decision))
        self._celery = celery

    def state(self) -> State:
        """As Celery's result backend knows it; a message it knows nothing of counts as waiting."""
        self._refuse_without_result()
        return STATES.get(self._celery.AsyncResult(self.id).state, State.WAITING)

    async def astate(self) -> State:
        """Celery has no async side."""
        raise _blocking("state")

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the end, and return what the body returned."""
        self._refuse_without_result()
        limit = None if timeout is None else duration(timeout, what="timeout")
        seconds = None if limit is None else limit.total_seconds()
        try:
            packed = self._celery.AsyncResult(self.id).get(timeout=seconds)
        except CeleryTimeout:
            assert limit is not None
            raise ResultTimeout(self.id, limit) from None
        except Exception as error:
            kind = JobCancelled if type(error).__name__ == "TaskRevokedError" else JobFailed
            raise kind(f"Job {self.id} failed on Celery: {error!r}") from error
        if packed is None:
            raise ResultNotKept(f"Job {self.id} is done, and Celery kept no result.")
        value: T = codec.unpack_value(packed)
        return value

    async def aresult(self, timeout: Duration | None = None) -> T:
        """Celery has no async side."""
        raise _blocking("result")

    def cancel(self) -> bool:
        """Ask the workers to drop the message when they meet it. Whether one had it already is not known."""
        self._celery.control.revoke(self.id)
        return True

    async def acancel(self) -> bool:
        """Celery has no async side."""
        raise _blocking("cancel")


def _blocking(word: str) -> DulyError:
    return DulyError(f"Celery has no async {word}: call asyncio.to_thread(job.{word}).")
