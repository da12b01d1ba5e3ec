"""`CeleryBackend`: Django's tasks on Celery, by one line of the settings.

    "BACKEND": "duly.integrations.celery.CeleryBackend", "OPTIONS": {"celery": "shop.celery.app"}

Tasks are those written for `DulyBackend`. Each is made known to Celery where Django makes it: while its
module is imported, in the worker too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any, Final

from duly import codec
from duly.clock import SystemClock
from duly.django import compat
from duly.django.backend import TakesOurWords
from duly.django.declaring import task_options, task_wishes
from duly.django.registry import is_findable
from duly.django.results import fill, fresh_result
from duly.django.transactions import let_go
from duly.django.values import plain_call
from duly.errors import DefinitionError, DulyError
from duly.integrations.celery.app import OnCelery
from duly.run import Run
from duly.task import build_request

WORDS: Final = ("celery", "guards", "namespace", "enqueue_on_commit")

_apps: dict[tuple[Any, ...], OnCelery] = {}
_making = threading.Lock()


class CeleryBackend(TakesOurWords):
    """Sends each request to Celery's broker; `celery worker` runs them.

    Celery's own signals and result backend tell what becomes of a task: `get_result` is not offered.
    """

    supports_defer = True
    supports_async_task = True

    @property
    def app(self) -> OnCelery:
        """The application that carries these tasks, one per process."""
        words = tuple(self.options.get(word) for word in ("celery", "guards", "namespace"))
        with _making:
            if words not in _apps:
                _apps[words] = self._made()
            return _apps[words]

    def _made(self) -> OnCelery:
        path = self.options.get("celery")
        if not path:
            raise DefinitionError(
                f"TASKS[{self.alias!r}] does not say which Celery application: "
                "OPTIONS = {'celery': 'shop.celery.app'}."
            )
        given = {word: self.options[word] for word in ("guards", "namespace") if self.options.get(word)}
        return OnCelery(compat.import_string(path), **given)

    def validate_task(self, task: Any) -> None:
        """Django's checks, then Celery's; what passes is known to Celery from here on."""
        TakesOurWords.validate_task(self, task)
        if task.module_path in self.app.tasks:
            return
        try:
            self.app.task(**task_options(task))(_body_of(task))
        except DulyError as error:
            raise compat.InvalidTask(str(error)) from error

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send a message, at once or with the caller's commit."""
        self.validate_task(task)
        if not is_findable(task):
            raise compat.InvalidTask(
                f"{task.module_path} does not lead to this task: no worker could find it."
            )
        call = plain_call(task.func, args, kwargs, takes_context=task.takes_context)
        carried = self.app.tasks[task.module_path]
        request = build_request(carried, task_wishes(task), codec.pack(*call, cap=self.app.argument_cap))
        (placed,) = self.app.place([request], self._awaited())
        result = fresh_result(task, placed.id, call, SystemClock().now())
        compat.signals().task_enqueued.send(type(self), task_result=result)
        return result

    def _awaited(self) -> Any:
        """The connection whose commit a request waits for, if any."""
        wanted = self.options.get("enqueue_on_commit")
        if not wanted:
            return None
        connection = compat.connections["default" if wanted is True else wanted]
        return connection if connection.in_atomic_block else None

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """What `manage.py check` says about this backend."""
        for word in sorted(set(self.options) - set(WORDS)):
            yield compat.checks.Error(
                f"TASKS[{self.alias!r}] has an option {word!r} that nobody reads.",
                hint=f"Options: {', '.join(WORDS)}.",
                id="duly.E101",
            )
        if not self.options.get("celery"):
            yield compat.checks.Error(
                f"TASKS[{self.alias!r}] names no Celery application.",
                hint="OPTIONS = {'celery': 'shop.celery.app'}",
                id="duly.E102",
            )


def _body_of(task: Any) -> Callable[..., Any]:
    """What Celery runs: the task's function, between connections that work and none kept too long."""

    def body(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        let_go()
        try:
            return task.func(*_context(task, run, args, kwargs), *args, **kwargs)
        finally:
            let_go()

    async def async_body(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        return await task.func(*_context(task, run, args, kwargs), *args, **kwargs)

    chosen = async_body if iscoroutinefunction(task.func) else body
    chosen.__doc__ = task.func.__doc__
    return chosen


def _context(task: Any, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if not task.takes_context:
        return ()
    result = fresh_result(task, run.id, (args, kwargs), run.due)
    fill(result, status=compat.TaskResultStatus.RUNNING, worker_ids=["celery"] * run.attempt)
    return (compat.TaskContext(task_result=result),)
