"""Backends for tests: Django's immediate and dummy ones, which take the options of Duly as well.

With Django's own in the settings of tests, `@task(retry=…)` is a TypeError already at import.
"""

from __future__ import annotations

from typing import Any

from duly.django.backend import TakesOurWords
from duly.django.compat import stock_backend
from duly.django.declaring import check_request
from duly.django.values import plain_call

_Immediate: Any = stock_backend("immediate", "ImmediateBackend")
_Dummy: Any = stock_backend("dummy", "DummyBackend")


class Strict(TakesOurWords):
    """Refuses at enqueue what DulyBackend refuses."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """As the backend below, with arguments that would survive a queue."""
        call = plain_call(task.func, args, kwargs, takes_context=task.takes_context)
        check_request(task)
        stock: Any = super()
        return stock.enqueue(task, *call)


class ImmediateBackend(Strict, _Immediate):  # type: ignore[misc]
    """Runs a task at once, in the caller's thread; `run_after` and keys are checked and not waited for."""

    supports_defer = True


class DummyBackend(Strict, _Dummy):  # type: ignore[misc]
    """Runs nothing and remembers every request in `results`."""
