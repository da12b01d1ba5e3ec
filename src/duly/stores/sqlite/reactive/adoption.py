"""Which definition of a reactive task is in force, and whether its table can be followed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duly.reactive.plan import Upheaval, upheaval
from duly.reactive.reaction import Cleaning, InForce, Reaction, is_adopted
from duly.stores.changes import ABANDONED, Absent, Condition, Impossible, Standing, Tended
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.moment import duration, instant_or_none, span
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.sqlite.reactive.capture import check_where, release, shape_of, source_of

SQL = statements("reaction")
DOCUMENT = statements("document")

LEFT = "No worker has known this task for a while: it left the code. It resumes when one does."


class Stored(NamedTuple):
    """A row of duly_reaction."""

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
        return Reaction.read(self.definition)


def stored(task: str) -> Steps[Stored | None]:
    """What is in force for a task."""
    found = yield Statement(SQL["in_force"], {"task": task})
    return Stored(*found[0]) if found else None


def adopt(world: World, reactions: Sequence[Reaction]) -> Steps[Mapping[str, Reaction]]:
    """Bring definitions; those that another one outranks are answered with that one."""
    outranked: dict[str, Reaction] = {}
    for reaction in reactions:
        other = yield from _adopt_one(world, reaction)
        if other is not None:
            outranked[reaction.task] = other
    return outranked


def _adopt_one(world: World, offered: Reaction) -> Steps[Reaction | None]:
    about = {"task": offered.task, "mark": offered.mark}
    is_new = bool((yield Statement(SQL["bring"], about)))
    before = yield from stored(offered.task)
    in_force = None if before is None else _in_force(world, before)
    if is_adopted(offered, in_force, is_new=is_new):
        yield from _take_over(world, None if before is None else before, offered)
        return None
    assert before is not None
    if before.mark != offered.mark:
        return before.reaction
    yield Statement(SQL["hear"], {"task": offered.task, "now": world.now})
    return None


def _in_force(world: World, before: Stored) -> InForce:
    return InForce(before.mark, before.version, duration(world.now - before.heard_at))


def _take_over(world: World, before: Stored | None, offered: Reaction) -> Steps[None]:
    what = upheaval(None if before is None else before.reaction, offered)
    definition = {"task": offered.task, "mark": offered.mark, "version": offered.version, "now": world.now}
    scan = None if what is Upheaval.NOTHING else scan_text(quiet=what is Upheaval.LOOK_QUIETLY)
    text = SQL["create" if before is None else "replace"]
    yield Statement(text, definition | {"definition": offered.text, "scan": scan})
    if before is not None and what is Upheaval.RUN_ALL:
        yield Statement(SQL["clear_seen"], {"number": before.number})


def scan_text(*, quiet: bool = False) -> str:
    """A scan at its beginning."""
    return json.dumps({"after": None, "quiet": quiet})


# --- looking after one task -----------------------------------------------------------------------


def tend(world: World, task: str) -> Steps[Tended]:
    """Check table, columns and triggers; park what cannot work, and let it go on when it can."""
    found = yield from stored(task)
    if found is None or (found.condition == Condition.PARKED and _is_abandoned(world, found)):
        return Tended(Condition.PARKED, LEFT)
    try:
        shape = yield from shape_of(found.reaction)
        if found.condition != Condition.ACTIVE:
            yield from check_where(shape)
    except Impossible as error:
        yield Statement(SQL["park"], {"number": found.number, "note": str(error)})
        return Tended(Condition.PARKED, str(error), is_mistaken=not isinstance(error, Absent))
    source, is_repaired = yield from source_of(world, shape)
    yield Statement(SQL["activate"], {"number": found.number, "source": source})
    if found.condition == Condition.PARKED:
        scan = scan_text(quiet=found.is_quiet)  # changes were dropped meanwhile
        yield Statement(SQL["look_again"], {"number": found.number, "scan": scan})
    if is_repaired:
        yield Statement(SQL["scan_source"], {"source": source, "scan": scan_text()})
    return Tended(Condition.ACTIVE, is_repaired=is_repaired)


def _is_abandoned(world: World, found: Stored) -> bool:
    return found.heard_at < world.now - span(ABANDONED)


def standings() -> Steps[list[Standing]]:
    """Every task, by name."""
    found = yield Statement(SQL["all"])
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
        for _, _, definition, condition, note, is_scanning, scanned, reconciled_at, documents in found
    ]


def tidy(world: World) -> Steps[int]:
    """Forget what its policy lets go, park what left the code, and take its triggers away."""
    forgotten = 0
    for number, _, definition, *_ in (yield Statement(SQL["all"])):
        reaction = Reaction.read(definition)
        if reaction.cleanup is not Cleaning.NEVER:
            unmatched_too = reaction.cleanup is Cleaning.DELETED_OR_UNMATCHED
            before = world.now - span(reaction.cleanup_after)
            given = {"reaction": number, "before": before, "unmatched_too": unmatched_too}
            forgotten += len((yield Statement(DOCUMENT["forget"], given)))
    silent = {"before": world.now - span(ABANDONED)}
    for number, _ in (yield Statement(SQL["abandoned"], silent)):
        yield Statement(SQL["park"], {"number": number, "note": LEFT})
    for (source,) in (yield Statement(SQL["idle_sources"], silent)):
        yield from release(source)
        yield Statement(SQL["uninstalled"], {"number": source})
    return forgotten
