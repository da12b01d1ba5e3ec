"""Several operations with decisions between them, written once for sync and async callers.

A conversation yields operations and receives their answers. Each operation is its own transaction;
what must be atomic is one operation.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from duly.stores.contract import Store
from duly.stores.drive import Operation

T = TypeVar("T")

Conversation = Generator[Operation[Any], Any, T]


def converse(store: Store, conversation: Conversation[T]) -> T:
    """Hold it, blocking."""
    answer: Any = None
    while True:
        try:
            operation = conversation.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = store.run(operation)


async def aconverse(store: Store, conversation: Conversation[T]) -> T:
    """Hold it without blocking the loop."""
    answer: Any = None
    while True:
        try:
            operation = conversation.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = await store.arun(operation)
