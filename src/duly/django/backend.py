"""`DulyBackend`: Django Tasks kept in Duly.

Made once per thread, often while task modules are being imported: it holds words from the settings and
nothing else. What has connections is `engine()`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, Final

from duly import codec
from duly.app import App
from duly.clock import SystemClock
from duly.django import compat
from duly.django.compat import BaseTaskBackend, InvalidTask, TaskResultDoesNotExist
from duly.django.declaring import DulyTask, task_wishes
from duly.django.joining import Meeting
from duly.django.registry import differences, is_findable, known, load, see
from duly.django.reporting import find_job
from duly.django.results import Note, fresh_result, result_of
from duly.django.values import plain_call
from duly.errors import UnknownTask
from duly.job import Request
from duly.task import build_request

LONGEST_ID: Final = 64

_Stock: Any = BaseTaskBackend


class TakesOurWords(BaseTaskBackend):  # type: ignore[misc]
    """What our backends have in common: the class of their tasks, and what they refuse."""

    task_class = DulyTask

    def validate_task(self, task: Any) -> None:
        """Django's own checks, with a wait in the place of a moment understood."""
        if isinstance(task.run_after, timedelta):
            self._refuse_negative(task.run_after)
            bare = {
                each.name: getattr(task, each.name)
                for each in dataclasses.fields(compat.Task)
                if each.name != "run_after"
            }
            task = _Unchecked(**bare, run_after=SystemClock().now())
        _Stock.validate_task(self, task)

    def _refuse_negative(self, wait: timedelta) -> None:
        if wait < timedelta(0):
            raise InvalidTask(f"run_after is {wait!r}; a wait cannot be negative.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Unchecked:
    """A task as far as Django's validation looks at it."""

    func: Any
    priority: Any
    backend: Any
    queue_name: Any
    takes_context: Any
    run_after: Any


class DulyBackend(TakesOurWords):
    """Stores each request as a job; `manage.py duly_worker` runs them."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> App:
        """The engine, made at first use."""
        from duly.django.engines import engine

        return engine(self.alias)

    def validate_task(self, task: Any) -> None:
        """Django's checks, and what only a queue must refuse."""
        TakesOurWords.validate_task(self, task)
        see(self.alias, task.module_path)
        if iscoroutinefunction(task.func) and getattr(task, "delivery", "") == "exactly_once":
            raise InvalidTask(
                f"{task.module_path}: delivery='exactly_once' runs in Django's atomic(), which async code "
                "cannot use. Write a plain def."
            )

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store a job: in the caller's transaction where it is the same database, else at once."""
        self.validate_task(task)
        if not is_findable(task):
            raise InvalidTask(
                f"{task.module_path} does not lead to this task, so no worker could find it. Decorate the "
                "function where it is defined, and keep its name."
            )
        call = plain_call(task.func, args, kwargs, takes_context=task.takes_context)
        request = self._request(task, call)
        meeting = Meeting(self.alias, self.app, self.options.get("enqueue_on_commit"))
        result = fresh_result(task, request.id, call, SystemClock().now())
        object.__setattr__(result, "id", meeting.place(request))
        compat.signals().task_enqueued.send(type(self), task_result=result)
        return result

    def _request(self, task: Any, call: tuple[tuple[Any, ...], dict[str, Any]]) -> Request:
        declared = load(task.module_path)
        stored = known(self.app, self.alias, declared)
        arguments = codec.pack(*call, cap=self.app.argument_cap)
        request = build_request(stored, task_wishes(task), arguments)
        using = differences(declared, task)
        note = Note(
            backend=using.pop("backend", None),
            using=using,
            enqueued_at=SystemClock().now() if task.run_after is not None else None,
        )
        return dataclasses.replace(request, context=note.added_to(request.context))

    def get_result(self, result_id: str) -> Any:
        """What became of a request, as the caller's own transaction sees it where it is in one."""
        job = self._find(result_id)
        try:
            return result_of(job, load(job.task))
        except (AttributeError, UnknownTask) as error:
            raise TaskResultDoesNotExist(result_id) from error

    def _find(self, result_id: Any) -> Any:
        """Ids of ours are short and printable: anything else is not worth a question."""
        if not isinstance(result_id, str) or not 0 < len(result_id) <= LONGEST_ID or not result_id.isascii():
            return None
        if not result_id.isprintable():
            return None
        meeting = Meeting(self.alias, self.app, self.options.get("enqueue_on_commit"))
        return find_job(self.app, result_id, meeting.connection) or self._on_its_way(result_id)

    def _on_its_way(self, result_id: str) -> Any:
        return None if self.app.outbox is None else self.app.look_up(result_id)

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """What `manage.py check` says about this backend; no database is asked."""
        from duly.django.checks import check_options

        return check_options(self.alias, self.options)
