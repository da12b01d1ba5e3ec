"""What can go wrong, drawn as one tree.

Every message quotes the value it is about and names the remedy. An outcome a caller must expect
(a lost lease, a duplicate key) is a returned value, never one of these.

    DulyError
    ├── DefinitionError          a task, schedule or option that cannot work (a ValueError)
    │   └── DuplicateTask
    ├── BadRequest               an enqueue that cannot be taken (a ValueError)
    │   ├── Unserialisable       (a TypeError too)
    │   ├── ArgumentsTooLarge
    │   ├── WrongSignature       (a TypeError too)
    │   └── WrongConnection      the caller's connection is not the store's database
    ├── StoreError
    │   ├── UnknownStore         the URL names no store
    │   ├── StoreUnavailable     the store cannot be reached or written now
    │   │   ├── StoreBusy        somebody else holds its only write lock
    │   │   ├── StoreRefused     it answers and says no: waiting will not help
    │   │   └── StoreMoved       everything in it is at another place now
    │   ├── SchemaMismatch       the schema no longer serves this code
    │   └── MissingExtra         the driver of this store is not installed
    ├── UnknownTask
    ├── UnknownJob
    ├── UnknownSchedule
    ├── Undecodable              stored arguments or results that cannot be rebuilt
    ├── IllegalMove              a change of state the lifecycle does not have
    ├── NoResult                 job.result() where no result can come
    │   ├── JobFailed
    │   ├── JobCancelled
    │   ├── JobSkipped
    │   └── ResultNotKept
    ├── ResultTimeout            (a TimeoutError)
    ├── LockTaken                (a TimeoutError)
    ├── LockLost
    ├── ReceiptBusy              another delivery of the same execution is being run
    ├── ReceiptLost              another delivery took the execution over; nothing was kept
    ├── ConditionFailed          the watched row is gone, changed or no longer matches
    ├── NotInRun                 a call that only makes sense inside a running task
    ├── TransactionEnded         a body ended or broke the transaction that Duly was to commit
    └── RetryAfter               raised by a body: try me again then

    BaseException
    ├── SoftLimitExceeded        `except Exception` in a body must not swallow these
    └── LeaseLost
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from duly.urls import masked


class DulyError(Exception):
    """The root of everything Duly raises on purpose."""


class DefinitionError(DulyError, ValueError):
    """A task, schedule, policy or option that cannot work, found where it is written."""


class DuplicateTask(DefinitionError):
    """Two functions claim one task name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(
            f"Two tasks are named {name!r}: {first} and {second}. Give one of them name='…' in its decorator."
        )


class BadRequest(DulyError, ValueError):
    """An enqueue that cannot be taken; nothing was written."""


class Unserialisable(BadRequest, TypeError):
    """An argument or result that would not survive the trip to the store."""

    def __init__(self, path: str, value: object, remedy: str) -> None:
        super().__init__(f"{path} cannot be stored: {_shown(value)}. {remedy}")
        self.path = path


class ArgumentsTooLarge(BadRequest):
    """Packed arguments beyond the cap."""

    def __init__(self, size: int, cap: int) -> None:
        super().__init__(
            f"The arguments take {size:,} bytes, the cap is {cap:,}. "
            "Store the payload elsewhere and pass its id, or raise argument_cap."
        )


class WrongSignature(BadRequest, TypeError):
    """Arguments that do not fit the task's function."""

    def __init__(self, task: str, complaint: str) -> None:
        super().__init__(f"{task} cannot be called like that: {complaint}.")


class WrongConnection(BadRequest):
    """A caller's connection that does not lead to the store's own database."""


class StoreError(DulyError):
    """Something about the store."""


class UnknownStore(StoreError, ValueError):
    """A URL that names no store."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"No store answers to {masked(url)!r}. Use sqlite:///file.db, postgresql://…, redis://… or memory://."
        )


class StoreUnavailable(StoreError):
    """The store cannot be reached or written at the moment; the call had no known effect."""


class StoreBusy(StoreUnavailable):
    """Somebody else holds the store's only write lock: nobody can write, so nobody takes our jobs either."""


class StoreRefused(StoreUnavailable):
    """The server answers and says no (a password, a right, a missing database): only a person can mend it."""


class StoreMoved(StoreUnavailable):
    """`duly move` has carried, or is carrying, everything in the store to another; nothing was written."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"This store has moved to {target}. Set DULY_URL (or the URL in your code) to it and start again."
        )
        self.target = target


class SchemaMismatch(StoreError):
    """The stored schema no longer serves this version of the code, or does not serve it yet."""


class MissingExtra(StoreError, ImportError):
    """A store or feature whose optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs an extra: pip install "duly[{extra}]"')


class UnknownTask(DulyError, LookupError):
    """A task name nobody registered in this process."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        hint = _nearest(name, known, "Import its module before the worker starts.")
        super().__init__(f"No task is named {name!r}. {hint}")


class UnknownJob(DulyError, LookupError):
    """A job id that the store does not hold (any more)."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"No job has the id {job_id!r}. It may have been pruned: see keep_for.")


class UnknownSchedule(DulyError, LookupError):
    """A schedule name that the store does not hold."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        hint = _nearest(name, known, "A worker that knows it must have started once.")
        super().__init__(f"No schedule is named {name!r}. {hint}")


class Undecodable(DulyError):
    """Stored text that cannot be turned back into values."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Stored text cannot be decoded: {reason}")


class IllegalMove(DulyError):
    """A change of state that the lifecycle table does not have."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"A {state} job cannot {event}.")


class NoResult(DulyError):
    """The job ended, or is set up, so that no result can come."""


class JobFailed(NoResult):
    """The job failed for good; the message carries its error."""


class JobCancelled(NoResult):
    """The job was cancelled or superseded; the message says by what."""


class JobSkipped(NoResult):
    """The job was skipped; the message says why."""


class ResultNotKept(NoResult):
    """The task does not keep results, or its time to keep this one is over."""


class ResultTimeout(DulyError, TimeoutError):
    """The job did not end in the time the caller was willing to wait."""

    def __init__(self, job_id: str, timeout: timedelta) -> None:
        super().__init__(f"Job {job_id} has not ended within {timeout.total_seconds():g} s.")


class LockTaken(DulyError, TimeoutError):
    """Somebody else holds the lock and did not let go in time."""

    def __init__(self, name: str, waited: timedelta) -> None:
        super().__init__(
            f"The lock {name!r} is held elsewhere; waited {waited.total_seconds():g} s. "
            "Pass wait='…' to wait longer."
        )


class LockLost(DulyError):
    """The lock ran out and was taken by somebody else while we believed to hold it."""

    def __init__(self, name: str, token: int) -> None:
        super().__init__(f"The lock {name!r} (token {token}) is no longer ours: its ttl ran out.")


class ReceiptBusy(DulyError):
    """Another delivery of the same execution is being run; this one must come back later."""

    def __init__(self, receipt_id: str, wait: timedelta) -> None:
        super().__init__(
            f"Receipt {receipt_id!r} is claimed elsewhere for up to {wait.total_seconds():g} s. "
            "Deliver it again after that: it is skipped if it was completed meanwhile."
        )
        self.receipt_id = receipt_id
        self.wait = wait

    def __reduce__(self) -> tuple[type[ReceiptBusy], tuple[str, timedelta]]:
        """Queues pickle what a function raises."""
        return ReceiptBusy, (self.receipt_id, self.wait)


class ReceiptLost(DulyError):
    """Another delivery took the execution over while its body ran; what the body wrote was rolled back."""

    def __init__(self, receipt_id: str, epoch: int) -> None:
        super().__init__(
            f"Receipt {receipt_id!r} was taken over while its body ran (epoch {epoch} is over): "
            "everything it wrote was rolled back. Raise `lease` if bodies are paused for longer than that."
        )
        self.receipt_id = receipt_id
        self.epoch = epoch

    def __reduce__(self) -> tuple[type[ReceiptLost], tuple[str, int]]:
        """Queues pickle what a function raises."""
        return ReceiptLost, (self.receipt_id, self.epoch)


class ConditionFailed(DulyError):
    """The watched row no longer exists, no longer matches, or has changed: the run is skipped."""


class NotInRun(DulyError):
    """A call that only makes sense inside a running task."""


class TransactionEnded(DulyError):
    """A body ended, closed or broke the transaction of its run, which only Duly may commit."""


class RetryAfter(DulyError):
    """Raised by a body that knows when trying again makes sense.

    The wait replaces the computed one; it stays within the policy's attempts.
    """

    def __init__(self, after: timedelta | float | str, reason: str = "") -> None:
        super().__init__(reason or f"asked to be tried again after {after}")
        self.after = after


class SoftLimitExceeded(BaseException):
    """The soft limit of the running task has passed. A BaseException: `except Exception` lets it through."""


class LeaseLost(BaseException):
    """The run no longer owns its job: stop, nothing it writes through Duly is accepted."""


def _nearest(name: str, known: Collection[str], otherwise: str) -> str:
    from difflib import get_close_matches  # long to load, and rarely needed

    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "<unprintable>"
    return f"{text[:80]} ({type(value).__name__})"
