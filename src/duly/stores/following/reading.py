"""Single rows for bodies, and rows that people mean: what is the same in every store.

Only the statements differ, and how the text of a key is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from duly.errors import BadRequest, DefinitionError
from duly.reactive.change import Facts
from duly.reactive.reaction import Reaction
from duly.stores.changes import Absent, Glance, Impossible
from duly.stores.drive import Steps
from duly.stores.following.adoption import Adoption, Stored


class Table(Protocol):
    """A task's view of its table."""

    @property
    def reaction(self) -> Reaction: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def key(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables of one store, for who reads them."""

    adoption: Adoption

    def known(self, task: str) -> Steps[Stored]:
        """What is in force for a task that people name."""
        found = yield from self.adoption.stored(task)
        if found is None:
            raise BadRequest(f"No worker has brought the reactive task {task!r} to this store yet.")
        return found

    def shape(self, known: Stored) -> Steps[Any]:
        """Its table; that it cannot be followed is for people to know."""
        try:
            return (yield from self.adoption.capture.shape_of(known.reaction))
        except Impossible as error:
            raise DefinitionError(str(error)) from error

    def meant(self, glance: Glance) -> Steps[Any]:
        """The table that a run is about; None where its row cannot be there any more."""
        known = yield from self.known(glance.task)
        try:
            shape = yield from self.adoption.capture.shape_of(known.reaction)
        except Absent:
            return None
        except Impossible as error:
            raise DefinitionError(str(error)) from error
        return shape if names_rows(glance.facts, shape) else None


def names_rows(facts: Facts, table: Table) -> bool:
    """Not where a run was planned when other columns named the rows."""
    return facts.by == table.key


def wanted(table: Table, names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns to be read, or which of them there is not."""
    unknown = [name for name in names or () if name not in table.columns]
    if unknown:
        raise BadRequest(
            f"Table {table.reaction.table} has no column {unknown[0]!r}. "
            f"Its columns: {', '.join(table.columns)}."
        )
    return table.columns if names is None else tuple(names)


def check_parts(table: Table, given: Sequence[object]) -> None:
    """As many values as columns name a row."""
    if len(given) != len(table.key):
        raise BadRequest(
            f"key is {tuple(given)!r}; a row of {table.reaction.table} is named by {', '.join(table.key)}: "
            f"give {len(table.key)} of them."
        )
