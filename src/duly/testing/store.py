"""The memory store of a virtual world: it knows which jobs somebody asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from duly.clock import Clock
from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Operation, Steps
from duly.stores.memory import MemoryStore

T = TypeVar("T")


class VirtualStore(MemoryStore):
    """A memory store that tells requests from seeds."""

    def __init__(self, clock: Clock, transactions: Any = None) -> None:
        super().__init__("memory://virtual", clock=clock)
        self.transactions = transactions
        """Where exactly-once bodies work, as in `Duly(transactions=…)`."""
        self.unasked: set[str] = set()
        """Jobs of automatic perpetuals that nobody has enqueued."""

    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        operation = super().put(requests)

        def steps() -> Steps[list[Placed]]:
            placed = yield from operation.steps()
            self.unasked.difference_update(answer.id for answer in placed)
            return placed

        return Operation(operation.name, steps)

    def seed(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        """What a worker puts by itself, without being asked."""
        operation = super().put(requests)

        def steps() -> Steps[list[Placed]]:
            placed = yield from operation.steps()
            self.unasked.update(answer.id for answer in placed if answer.decision is Decision.CREATED)
            return placed

        return Operation(operation.name, steps)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """There is no database to join a transaction of: the request counts at once."""
        return self.run(operation)
