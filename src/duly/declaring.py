"""What decorators give back, as type checkers see it: a function in, a Task with the same arguments out."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from duly.run import Run
from duly.task import Task

P = ParamSpec("P")
T = TypeVar("T")


class Decorate(Protocol):
    """What `@app.task(...)` is."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Run, P], Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Run, P], T], /) -> Task[P, T, T]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...
