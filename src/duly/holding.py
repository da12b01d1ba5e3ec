"""Holding a lane and letting it go: what `app.pause` and `app.resume` say to the store."""

from __future__ import annotations

from typing import Protocol

from duly.audit import Audit
from duly.converse import Conversation
from duly.errors import DefinitionError
from duly.stores.contract import Scope, Store, Switch


class Named(Protocol):
    """A task."""

    @property
    def name(self) -> str: ...


def lane(task: str | Named | None, queue: str | None) -> tuple[Scope, str]:
    """What is meant: a task or a queue."""
    if (task is None) == (queue is None):
        raise DefinitionError("Say what to hold: task='…' or queue='…', and not both.")
    if task is not None:
        return Scope.TASK, task if isinstance(task, str) else task.name
    assert queue is not None
    return Scope.QUEUE, queue


def hold(store: Store, held: tuple[Scope, str], reason: str, by: str) -> Conversation[None]:
    """Until somebody lets it go."""
    scope, name = held
    yield from Audit(lambda: store).note("pause", {str(scope): name, "reason": reason}, by)
    yield store.hold(Switch(scope, name, until=None, reason=reason))


def free(store: Store, held: tuple[Scope, str], by: str) -> Conversation[bool]:
    """Whether it was held."""
    scope, name = held
    yield from Audit(lambda: store).note("resume", {str(scope): name}, by)
    was_held: bool = yield store.free(scope, name)
    store.ring()
    return was_held
