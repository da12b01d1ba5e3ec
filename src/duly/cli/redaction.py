"""What people may see of a job's arguments, result, context and errors.

A task says which of its own arguments are nobody's business (`redact=`); names that are secrets wherever they
turn up are added. The arguments of a task whose code is not here are not shown at all: nobody could tell
which of them are secret. What is hidden of a call is hidden wherever the job quotes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.cli.documents import call_text
from duly.cli.words import clipped
from duly.secrecy import HIDDEN, Discretion, Secrecy
from duly.secrecy.calls import parsed

if TYPE_CHECKING:
    from duly.app import App
    from duly.job import Job
    from duly.stores.reports import FailureGroup


class Redaction:
    """Hides what must not be seen of an application's jobs."""

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        self._secrecy = Secrecy(names)

    def knows(self, task: str) -> bool:
        """Whether the task's own list is here to go by."""
        return task in self._app.tasks

    def call(self, job: Job) -> Any:
        """`[args, kwargs]` without secrets; stars where even that cannot be told."""
        return self.arguments(job.task, job.arguments)

    def arguments(self, name: str, stored: str) -> Any:
        """The same of any call of a task, such as that of every tick of a schedule."""
        return self._of(name).call(parsed(stored))

    def call_text(self, job: Job, width: int = 160) -> str:
        """The call on one line."""
        call = self.call(job)
        return HIDDEN if call == HIDDEN else clipped(call_text("", call)[1:-1], width)

    def job(self, job: Job) -> Job:
        """The same job with stars where it quotes what is hidden: in errors, reasons, and what it gives."""
        return self._of(job.task).job(job, parsed(job.arguments))

    def jobs(self, jobs: Iterable[Job]) -> list[Job]:
        """The same of several."""
        return [self.job(job) for job in jobs]

    def groups(self, groups: Iterable[FailureGroup]) -> list[FailureGroup]:
        """Failures by cause, each shown by one of its jobs."""
        return [replace(group, sample=self.job(group.sample)) for group in groups]

    def text(self, stored: str | None) -> Any:
        """A stored JSON text without secrets."""
        return Discretion(None, secrecy=self._secrecy).value(parsed(stored))

    def _of(self, name: str) -> Discretion:
        task = self._app.tasks.get(name)
        if task is None:
            return Discretion(None, secrecy=self._secrecy)
        handed_in = () if task.inlet is None else (task.inlet.name,)
        return Discretion(task.function, task.options.redact, handed_in, self._secrecy)
