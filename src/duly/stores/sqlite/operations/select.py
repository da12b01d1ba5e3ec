"""Which jobs a selection means, newest request first.

By id, key, fingerprint or error text one index answers. By task, queue and state, the groups that exist
are few and found by leaping through an index; each is read from its newest end, and the ends are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from duly.job import State
from duly.lifecycle import legible
from duly.stores.contract import Selection
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.tables.searching import FIRST

SQL = statements("select")

NEVER: Final = 2**63 - 1
"""Above every generation."""
EVERYTHING: Final = -1
"""What SQLite takes as no limit."""
WINDOW: Final = 1000
"""So many of the newest jobs, and four for each that is wanted, are looked at for those that wait: that takes
a millisecond, and to look at all that wait in a lane a fifth of a second where they are a million."""


class Group(NamedTuple):
    """Jobs of one queue, task and state."""

    queue: str
    task: str
    state: str


def matching(
    selection: Selection,
    *,
    before: int | None = None,
    since: int = FIRST,
    limit: int = EVERYTHING,
    spared: Sequence[str] = (),
) -> Steps[list[int]]:
    """The generations of the jobs selected, but for those in spared queues."""
    page = {
        "before": NEVER if before is None else before,
        "since": since,
        "limit": limit,
        "spared": pack(spared),
    }
    named = _named(selection)
    if named is not None:
        found = yield Statement(SQL[named], _parameters(selection) | page)
        return [generation for (generation,) in found]
    if not (selection.tasks or selection.states or selection.queues):
        found = yield Statement(SQL["newest"], page)
        return [generation for (generation,) in found]
    return (yield from _newest_of_groups(selection, page, spared))


def reach(selection: Selection, before: int | None, window: int) -> Steps[int]:
    """From which generation on no more than so many jobs are looked at to find those selected.

    Only an error has to be looked for among others; everything else is where an index says it is.
    """
    named = _named(selection)
    if named not in ("by_fingerprint", "by_error"):
        return FIRST
    values = {"before": NEVER if before is None else before, "others": window - 1}
    statement = Statement(SQL[f"reach_{named}"], values | {"fingerprint": selection.fingerprint})
    found = yield statement
    return found[0][0] if found else FIRST


def counted(selection: Selection) -> Steps[int]:
    """How many jobs are selected."""
    if _named(selection) is not None:
        return len((yield from matching(selection)))
    total = len((yield from _running(selection, {"before": NEVER})))
    for group in (yield from _groups(selection)):
        text = SQL["count_waiting_in" if group.state == State.WAITING else "count_ended_in"]
        ((size,),) = yield Statement(text, group._asdict())
        total += size
    return total


def _named(selection: Selection) -> str | None:
    """The statement for a selection that names its jobs."""
    if selection.ids:
        return "by_id"
    if selection.key is not None:
        return "by_key"
    if selection.fingerprint is not None:
        return "by_fingerprint"
    # The empty text is part of every error, and of none: it selects all.
    return "by_error" if selection.error else None


def _parameters(selection: Selection) -> dict[str, Any]:
    return {
        "ids": pack(selection.ids),
        "key": selection.key,
        "error": legible(selection.error).lower() if selection.error else None,
        "fingerprint": selection.fingerprint,
        "tasks": pack(selection.tasks) if selection.tasks else None,
        "states": pack(selection.states) if selection.states else None,
        "queues": pack(selection.queues) if selection.queues else None,
    }


def _newest_of_groups(selection: Selection, page: dict[str, Any], spared: Sequence[str]) -> Steps[list[int]]:
    generations = yield from _running(selection, page, spared)
    groups = yield from _groups(selection, spared)
    latest = yield from _latest_waiting(groups, page)
    generations += latest
    for group in groups:
        is_waiting = group.state == State.WAITING
        if not (is_waiting and latest):
            text = SQL["waiting_in" if is_waiting else "ended_in"]
            generations += [generation for (generation,) in (yield Statement(text, group._asdict() | page))]
    generations.sort(reverse=True)
    return generations if page["limit"] == EVERYTHING else generations[: page["limit"]]


def _latest_waiting(groups: Sequence[Group], page: dict[str, Any]) -> Steps[list[int]]:
    """A page of what waits in these groups, if a whole one is among the newest jobs of all; else nothing."""
    limit: int = page["limit"]
    wanted = {(group.queue, group.task) for group in groups if group.state == State.WAITING}
    if limit == EVERYTHING or not wanted:
        return []
    found = yield Statement(SQL["latest_waiting"], page | {"window": WINDOW + 4 * limit})
    latest = [generation for generation, queue, task in found if (queue, task) in wanted]
    return latest[:limit] if len(latest) >= limit else []


def _running(selection: Selection, page: dict[str, Any], spared: Sequence[str] = ()) -> Steps[list[int]]:
    """Few enough at any time to be looked at one by one."""
    if not _has_state(selection, State.RUNNING):
        return []
    found = yield Statement(SQL["running"], page)
    return [
        generation
        for generation, queue, task in found
        if queue not in spared and _has_lane(selection, queue, task)
    ]


def _groups(selection: Selection, spared: Sequence[str] = ()) -> Steps[list[Group]]:
    """The groups of waiting and finished jobs that the selection takes in."""
    found: list[Any] = []
    if _has_state(selection, State.WAITING):
        found += yield Statement(SQL["waiting_groups"])
    found += yield Statement(SQL["ended_groups"])
    groups = [group for values in found if (group := Group(*values)).queue not in spared]
    return [
        group for group in groups if _has_state(selection, group.state) and _has_lane(selection, *group[:2])
    ]


def _has_state(selection: Selection, state: str) -> bool:
    return not selection.states or state in selection.states


def _has_lane(selection: Selection, queue: str, task: str) -> bool:
    return (not selection.queues or queue in selection.queues) and (
        not selection.tasks or task in selection.tasks
    )
