"""Following tables in the store's own file: the operations, each a description that performs no I/O."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from duly.reactive.change import Found
from duly.reactive.reaction import Reaction
from duly.stores.changes import Choice, Glance, Planned, Standing, Tended
from duly.stores.drive import Operation, Statement
from duly.stores.sqlite.operations.moving import Operations
from duly.stores.sqlite.reactive import planning, reading
from duly.stores.sqlite.reactive.capture import ADOPTION
from duly.stores.sqlite.reactive.scanning import SCANNING


class Following(Operations):
    """Everything a SQLite store can do, and following tables."""

    planning_time = timedelta(milliseconds=20)  # nobody else writes meanwhile

    def adopt(self, reactions: Sequence[Reaction]) -> Operation[Mapping[str, Reaction]]:
        return self._writing("adopt", lambda world: ADOPTION.adopt(world, reactions))

    def standings(self) -> Operation[list[Standing]]:
        return self._reading("standings", lambda _: ADOPTION.standings())

    def tend(self, task: str) -> Operation[Tended]:
        return self._writing("tend", lambda world: ADOPTION.tend(world, task))

    def tidy(self) -> Operation[int]:
        return self._writing("tidy", ADOPTION.tidy)

    def plan(self, limit: int) -> Operation[Planned]:
        return self._writing("plan", lambda world: planning.plan(world, limit))

    def has_changes(self) -> Operation[bool]:
        return self._reading("has_changes", lambda _: planning.has_changes())

    def examine(self, task: str) -> Operation[str | None]:
        """Planning itself parks what fails: SQLite lets a transaction go on after an error."""

        def steps() -> Generator[Statement, Sequence[tuple[object, ...]], str | None]:
            return None
            yield

        return Operation("examine", steps, writes=False)

    def scan(self, limit: int) -> Operation[int | None]:
        return self._writing("scan", lambda world: SCANNING.scan(world, limit))

    def reconcile(self, task: str) -> Operation[None]:
        return self._writing("reconcile", lambda _: SCANNING.reconcile(task))

    def revisit(self, choice: Choice) -> Operation[int]:
        return self._writing("revisit", lambda _: reading.revisit(choice))

    def chosen(self, choice: Choice) -> Operation[list[str]]:
        return self._reading("chosen", lambda _: reading.chosen(choice))

    def foretell(self, task: str) -> Operation[int]:
        return self._reading("foretell", lambda world: SCANNING.foretell(world.moment.instant, task))

    def name_row(self, task: str, key: Sequence[Any]) -> Operation[str]:
        return self._reading("name_row", lambda _: reading.name_row(task, key))

    def read_row(self, glance: Glance) -> Operation[Found | None]:
        made = self._reading("read_row", lambda _: reading.read_row(glance))
        return Operation(made.name, made.steps, writes=glance.locks)

    def hold_row(self, glance: Glance) -> Operation[None]:
        """Nothing to do: whoever writes to the file keeps everybody else from it."""

        def steps() -> Generator[Statement, Sequence[tuple[object, ...]], None]:
            return
            yield

        return Operation("hold_row", steps)
