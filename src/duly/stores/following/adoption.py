"""Which definition of a reactive task is in force, and whether its table can be followed.

The same in every store that can: only the statements differ, and how a table is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from duly.reactive.plan import Upheaval, upheaval
from duly.reactive.reaction import Cleaning, InForce, Reaction, is_adopted
from duly.stores.changes import ABANDONED, Absent, Busy, Condition, Impossible, Standing, Tended
from duly.stores.drive import Statement, Steps
from duly.stores.tables.instants import duration, instant_or_none, span

LEFT = "No worker has known this task for a while: it left the code. It resumes when one does."


class Now(Protocol):
    """The moment of an operation, in microseconds."""

    @property
    def now(self) -> int: ...


class Capture(Protocol):
    """How a store looks at tables and puts triggers on them."""

    def shape_of(self, reaction: Reaction) -> Steps[Any]:
        """The table as it is; raises Impossible."""
        ...

    def check_where(self, shape: Any) -> Steps[None]:
        """Raises Impossible if the condition is not about the row alone."""
        ...

    def source_of(self, world: Now, shape: Any) -> Steps[tuple[int, bool]]:
        """The number of the table with its triggers in place, and whether these had vanished.

        Raises Busy when somebody holds the table.
        """
        ...

    def release(self, number: int) -> Steps[None]:
        """Take the triggers of a table away."""
        ...


class Stored(NamedTuple):
    """A reaction, as it is stored."""

    number: int
    definition: str
    mark: str
    version: int
    heard_at: int
    condition: str
    source: int | None
    scan: str | None

    @property
    def is_quiet(self) -> bool:
        """A scan that has not ended notes rows in silence."""
        return self.scan is not None and bool(json.loads(self.scan)["quiet"])

    @property
    def reaction(self) -> Reaction:
        """What it says."""
        return Reaction.read(self.definition)


def scan_text(*, quiet: bool = False) -> str:
    """A scan at its beginning."""
    return json.dumps({"phase": "rows", "after": None, "quiet": quiet})


@dataclass(frozen=True, slots=True)
class Adoption:
    """Definitions and their tables, by the statements of one store."""

    sql: Mapping[str, str]
    capture: Capture

    def stored(self, task: str) -> Steps[Stored | None]:
        """What is in force for a task."""
        found = yield Statement(self.sql["in_force"], {"task": task})
        return Stored(*found[0]) if found else None

    def adopt(self, world: Now, reactions: Sequence[Reaction]) -> Steps[Mapping[str, Reaction]]:
        """Bring definitions; those that another one outranks are answered with that one."""
        outranked: dict[str, Reaction] = {}
        yield Statement(self.sql["alone"])
        for reaction in sorted(reactions, key=lambda one: one.task):
            other = yield from self._adopt_one(world, reaction)
            if other is not None:
                outranked[reaction.task] = other
        return outranked

    def _adopt_one(self, world: Now, offered: Reaction) -> Steps[Reaction | None]:
        about = {"task": offered.task, "mark": offered.mark}
        is_new = bool((yield Statement(self.sql["bring"], about)))
        before = yield from self.stored(offered.task)
        in_force = None if before is None else _in_force(world, before)
        if is_adopted(offered, in_force, is_new=is_new):
            yield from self._take_over(world, before, offered)
            return None
        assert before is not None
        if before.mark != offered.mark:
            return before.reaction
        yield Statement(self.sql["hear"], {"task": offered.task, "now": world.now})
        return None

    def _take_over(self, world: Now, before: Stored | None, offered: Reaction) -> Steps[None]:
        what = upheaval(None if before is None else before.reaction, offered)
        definition = {
            "task": offered.task,
            "mark": offered.mark,
            "version": offered.version,
            "now": world.now,
        }
        scan = None if what is Upheaval.NOTHING else scan_text(quiet=what is Upheaval.LOOK_QUIETLY)
        text = self.sql["create" if before is None else "replace"]
        yield Statement(text, definition | {"definition": offered.text, "scan": scan})
        if before is not None and what is Upheaval.RUN_ALL:
            yield Statement(self.sql["clear_seen"], {"number": before.number})

    # looking after one task

    def tend(self, world: Now, task: str) -> Steps[Tended]:
        """Check table, columns and triggers; park what cannot work, and let it go on when it can."""
        yield Statement(self.sql["alone"])
        found = yield from self.stored(task)
        if found is None or (found.condition == Condition.PARKED and _is_abandoned(world, found)):
            return Tended(Condition.PARKED, LEFT)
        try:
            shape = yield from self.capture.shape_of(found.reaction)
            if found.condition != Condition.ACTIVE:
                yield from self.capture.check_where(shape)
            source, is_repaired = yield from self.capture.source_of(world, shape)
        except Busy as error:
            return Tended(Condition(found.condition), str(error), is_busy=True)
        except Impossible as error:
            yield Statement(self.sql["park"], {"number": found.number, "note": str(error)})
            return Tended(Condition.PARKED, str(error), is_mistaken=not isinstance(error, Absent))
        yield from self._activate(found, source, is_repaired=is_repaired)
        return Tended(Condition.ACTIVE, is_repaired=is_repaired)

    def _activate(self, found: Stored, source: int, *, is_repaired: bool) -> Steps[None]:
        if found.condition != Condition.ACTIVE or found.source != source:
            yield Statement(self.sql["activate"], {"number": found.number, "source": source})
        has_moved = found.source not in (None, source)
        if has_moved:
            moved = {"number": found.number, "former": found.source, "source": source}
            yield Statement(self.sql["forget_keys"], moved)
        if has_moved or found.condition == Condition.PARKED:
            scan = scan_text(quiet=found.is_quiet)  # changes were dropped meanwhile
            yield Statement(self.sql["look_again"], {"number": found.number, "scan": scan})
        if is_repaired:
            yield Statement(self.sql["scan_source"], {"source": source, "scan": scan_text()})

    def park(self, number: int, note: str) -> Steps[None]:
        """Plan nothing for it until it can be followed again."""
        yield Statement(self.sql["park"], {"number": number, "note": note})

    def standings(self) -> Steps[list[Standing]]:
        """Every task, by name."""
        found = yield Statement(self.sql["all"])
        return [
            Standing(
                reaction=Reaction.read(definition),
                condition=Condition(condition),
                note=note,
                documents=documents,
                is_scanning=bool(is_scanning),
                scanned=scanned,
                reconciled_at=instant_or_none(reconciled_at),
            )
            for _, definition, condition, note, is_scanning, scanned, reconciled_at, documents in found
        ]

    def tidy(self, world: Now) -> Steps[int]:
        """Forget what its policy lets go, park what left the code, and take its triggers away."""
        forgotten = 0
        for number, definition in (yield Statement(self.sql["definitions"])):
            forgotten += yield from self._forget(world, number, Reaction.read(definition))
        silent = {"before": world.now - span(ABANDONED)}
        for (number,) in (yield Statement(self.sql["abandoned"], silent)):
            yield from self.park(number, LEFT)
        for (source,) in (yield Statement(self.sql["idle_sources"], silent)):
            yield from self.capture.release(source)
            yield Statement(self.sql["uninstalled"], {"number": source})
        return forgotten

    def _forget(self, world: Now, number: int, reaction: Reaction) -> Steps[int]:
        if reaction.cleanup is Cleaning.NEVER:
            return 0
        unmatched_too = reaction.cleanup is Cleaning.DELETED_OR_UNMATCHED
        before = world.now - span(reaction.cleanup_after)
        given = {"reaction": number, "before": before, "unmatched_too": unmatched_too}
        return len((yield Statement(self.sql["forget"], given)))


def _in_force(world: Now, before: Stored) -> InForce:
    return InForce(before.mark, before.version, duration(world.now - before.heard_at))


def _is_abandoned(world: Now, found: Stored) -> bool:
    return found.heard_at < world.now - span(ABANDONED)
