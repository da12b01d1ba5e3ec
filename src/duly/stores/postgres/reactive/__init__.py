"""Following tables in the store's own database: the operations, each a description that performs no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from duly.reactive.change import Found
from duly.reactive.reaction import Reaction
from duly.stores.changes import Choice, Glance, Planned, Standing, Tended
from duly.stores.drive import Operation
from duly.stores.postgres.operations.moving import Movable
from duly.stores.postgres.reactive import planning, reading
from duly.stores.postgres.reactive.capture import ADOPTION
from duly.stores.postgres.reactive.scanning import SCANNING


class Following(Movable):
    """Everything a PostgreSQL store can do, and following tables."""

    planning_time = timedelta(milliseconds=60)  # nobody waits for it but the documents' own jobs

    def adopt(self, reactions: Sequence[Reaction]) -> Operation[Mapping[str, Reaction]]:
        return self._writing("adopt", lambda world: ADOPTION.adopt(world, reactions), may_repeat=True)

    def standings(self) -> Operation[list[Standing]]:
        return self._reading("standings", lambda _: ADOPTION.standings())

    def tend(self, task: str) -> Operation[Tended]:
        return self._writing("tend", lambda world: ADOPTION.tend(world, task), may_repeat=True)

    def tidy(self) -> Operation[int]:
        return self._writing("tidy", ADOPTION.tidy, may_repeat=True)

    def has_changes(self) -> Operation[bool]:
        return self._reading("has_changes", lambda _: planning.has_changes())

    def plan(self, limit: int) -> Operation[Planned]:
        return self._placing("plan", lambda world: planning.plan(world, limit), may_repeat=True)

    def examine(self, task: str) -> Operation[str | None]:
        return self._writing("examine", lambda _: planning.examine(task, self._spelled), may_repeat=True)

    def _spelled(self, text: str) -> str:
        """A statement that travels as a value: nobody else spells it, and it has no parameters."""
        raise NotImplementedError

    def scan(self, limit: int) -> Operation[int | None]:
        return self._writing("scan", lambda world: SCANNING.scan(world, limit), may_repeat=True)

    def reconcile(self, task: str) -> Operation[None]:
        return self._writing("reconcile", lambda _: SCANNING.reconcile(task), may_repeat=True)

    def revisit(self, choice: Choice) -> Operation[int]:
        return self._writing("revisit", lambda _: reading.revisit(choice), may_repeat=True)

    def chosen(self, choice: Choice) -> Operation[list[str]]:
        return self._reading("chosen", lambda _: reading.chosen(choice))

    def foretell(self, task: str) -> Operation[int]:
        return self._reading("foretell", lambda world: SCANNING.foretell(world.moment.instant, task))

    def name_row(self, task: str, key: Sequence[Any]) -> Operation[str]:
        return self._reading("name_row", lambda _: reading.name_row(task, key))

    def read_row(self, glance: Glance) -> Operation[Found | None]:
        return self._reading("read_row", lambda _: reading.read_row(glance))

    def hold_row(self, glance: Glance) -> Operation[None]:
        return self._writing("hold_row", lambda _: reading.hold_row(glance))
