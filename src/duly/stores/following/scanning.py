"""scan: a look at every row, in steps that each remember how far they came.

Triggers are there before the first step, and a step only appends keys as they do: a row that changes
meanwhile is planned by its newest state, whoever comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from duly.reactive.plan import Record, Sight, decide
from duly.reactive.reaction import Reaction
from duly.stores.changes import Impossible
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Adoption, Now, Stored, scan_text
from duly.stores.following.reading import Reading

BATCH: Final = 1000


class Ticket(NamedTuple):
    """Whose scan it is."""

    number: int
    source: int


class Looked(NamedTuple):
    """A batch of matching rows: what is known of each and what it looks like, and where the next begins."""

    rows: Sequence[tuple[Record | None, str]]
    after: Any


class Scanner(Protocol):
    """How a store goes through a table."""

    def step_rows(self, shape: Any, ticket: Ticket, progress: dict[str, Any], limit: int) -> Steps[int]:
        """Append the next matching rows; says how many, and in `progress` where they end."""
        ...

    def step_documents(self, shape: Any, ticket: Ticket, progress: dict[str, Any], limit: int) -> Steps[int]:
        """The same for documents of a stretch that match no longer."""
        ...

    def look(self, shape: Any, found: Stored, after: Any, limit: int) -> Steps[Looked]:
        """Look at matching rows, and leave everything as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Scanning:
    """Scans of one store."""

    adoption: Adoption
    scanner: Scanner
    troubles: tuple[type[Exception], ...] = (Impossible,)
    """What keeps rows from being looked at, where a transaction can go on after it."""

    def reconcile(self, task: str) -> Steps[None]:
        """Look at every row of a task from the beginning."""
        found = yield from self.adoption.stored(task)
        if found is not None:
            yield Statement(self.adoption.sql["look_again"], {"number": found.number, "scan": scan_text()})

    def scan(self, world: Now, limit: int) -> Steps[int | None]:
        """The next step of the first scan there is: matching rows, then documents that match no longer."""
        found = yield Statement(self.adoption.sql["scans"])
        if not found:
            return None
        ((number, source, definition, text),) = found
        progress: dict[str, Any] = json.loads(text)
        step = self.scanner.step_rows if progress["phase"] == "rows" else self.scanner.step_documents
        try:
            shape = yield from self.adoption.capture.shape_of(Reaction.read(definition))
            noted = yield from step(shape, Ticket(number, source), progress, limit)
        except self.troubles as error:
            yield from self.adoption.park(number, str(error))
            return 0
        yield from self._advance(world, number, progress, noted)
        return noted

    def _advance(self, world: Now, number: int, progress: dict[str, Any], noted: int) -> Steps[None]:
        is_over = progress["phase"] == "over"
        written = {"number": number, "scan": None if is_over else json.dumps(progress), "scanned": noted}
        yield Statement(self.adoption.sql["advance"], written)
        if is_over:
            yield Statement(self.adoption.sql["end_scan"], {"number": number, "now": world.now})

    def foretell(self, now: datetime, task: str) -> Steps[int]:
        """How many rows a scan would run now, counted in batches."""
        reading = Reading(self.adoption)
        found = yield from reading.known(task)
        shape = yield from reading.shape(found)
        reaction, runs, after = found.reaction, 0, None
        while True:
            rows, after = yield from self.scanner.look(shape, found, after, BATCH)
            for record, seen in rows:
                runs += decide(record, Sight(matches=True, seen=seen), reaction, now).run is not None
            if len(rows) < BATCH:
                return runs
