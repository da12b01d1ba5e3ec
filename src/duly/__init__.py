"""Duly: background work, duly done.

The public names. They are loaded when first used, so that `import duly` and a child process that only
needs a corner of the package stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.lazily import lookup
from duly.version import __version__

if TYPE_CHECKING:
    from duly.context import bind
    from duly.engine import Duly
    from duly.errors import (
        BadRequest,
        ConditionFailed,
        DefinitionError,
        DulyError,
        JobCancelled,
        JobFailed,
        JobSkipped,
        LeaseLost,
        LockLost,
        LockTaken,
        NoResult,
        ReceiptBusy,
        ReceiptLost,
        ResultNotKept,
        ResultTimeout,
        RetryAfter,
        SoftLimitExceeded,
        StoreUnavailable,
        UnknownJob,
        UnknownTask,
    )
    from duly.handle import Handle
    from duly.job import Decision, Job, State
    from duly.ledger import HandOver, Ledger, Receipt, current_receipt, exactly_once
    from duly.reactive.change import Change
    from duly.retry import Retry
    from duly.run import Run
    from duly.task import Task
    from duly.worker import Worker


_ERRORS = """
    BadRequest ConditionFailed DefinitionError DulyError JobCancelled JobFailed JobSkipped LeaseLost
    LockLost LockTaken NoResult ReceiptBusy ReceiptLost ResultNotKept ResultTimeout RetryAfter
    SoftLimitExceeded StoreUnavailable UnknownJob UnknownTask
"""
_HOMES = {
    "bind": "context",
    "Duly": "engine",
    "Handle": "handle",
    "Decision": "job",
    "Job": "job",
    "State": "job",
    "HandOver": "ledger",
    "Ledger": "ledger",
    "Receipt": "ledger",
    "current_receipt": "ledger",
    "exactly_once": "ledger",
    "Change": "reactive.change",
    "Retry": "retry",
    "Run": "run",
    "Task": "task",
    "Worker": "worker",
    **dict.fromkeys(_ERRORS.split(), "errors"),
}

__all__ = [
    "BadRequest",
    "Change",
    "ConditionFailed",
    "Decision",
    "DefinitionError",
    "Duly",
    "DulyError",
    "HandOver",
    "Handle",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobSkipped",
    "LeaseLost",
    "Ledger",
    "LockLost",
    "LockTaken",
    "NoResult",
    "Receipt",
    "ReceiptBusy",
    "ReceiptLost",
    "ResultNotKept",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Run",
    "SoftLimitExceeded",
    "State",
    "StoreUnavailable",
    "Task",
    "UnknownJob",
    "UnknownTask",
    "Worker",
    "__version__",
    "bind",
    "current_receipt",
    "exactly_once",
]

__getattr__ = lookup(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
