"""find: walking a selection in portions, so that no reading holds the server up.

Jobs that change while the walk goes on are seen as they are when it comes to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from duly.job import Job
from duly.lifecycle import legible
from duly.stores.contract import Page, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.redis.moment import instant
from duly.stores.redis.packing import read_job, selection_values
from duly.stores.reports import COUNTED, TASKS_OF, FailureGroup, Found, Search

ERROR = 19
"""Where a job, as it is sent, has its error."""
PORTION = 500
"""Jobs whose texts are looked at by one script."""
AT_ONCE = 2000
"""Jobs that one script looks at to find those of a selection."""
PLAIN = re.compile("[a-z0-9 _.:@,-]+")
"""Letters that every JSON writes as they are, so that the server can tell where they cannot be."""


def find(selection: Selection, page: Page) -> Steps[list[Job]]:
    """A page of jobs, newest request first."""
    if selection.error and not selection.ids:
        ids = yield from all_ids(selection, page.limit, before=page.before)
        if not ids:
            return []
        selection, page = Selection(ids=tuple(ids)), Page(len(ids), with_history=page.with_history)
    jobs: list[Job] = []
    before = page.before
    while len(jobs) < page.limit:
        # An error text is compared here, so how many of the next ones will do is not known there.
        limit = None if selection.error else page.limit - len(jobs)
        values = _walk(selection, before, limit) | {"with_history": page.with_history}
        found, [before] = yield Statement("find", values)
        jobs += [read_job(one) for one in found if _has_error(selection, one[ERROR])]
        if before is None:
            break
    return jobs[: page.limit]


def search(selection: Selection, search: Search) -> Steps[Found]:
    """Free text among the jobs of a selection, a portion at a time: Lua knows no case but that of ASCII."""
    if not search.text and not selection.error:
        return (yield from _listed(selection, search))
    ids, following = yield from _searched(selection, search)
    if not ids:
        return Found([], following)
    return Found((yield from find(Selection(ids=tuple(ids)), Page(limit=len(ids)))), following)


def _listed(selection: Selection, search: Search) -> Steps[Found]:
    """All of a selection, as far as a search may go."""
    jobs: list[Job] = []
    before, left = search.before, search.depth
    while left > 0:
        values = _walk(selection, before, search.limit - len(jobs)) | {"at_once": left}
        found, [before] = yield Statement("find", values)
        jobs += map(read_job, found)
        if before is None or len(jobs) == search.limit:
            break
        left -= AT_ONCE
    return Found(jobs, before)


def _searched(selection: Selection, search: Search) -> Steps[tuple[list[str], int | None]]:
    ids: list[str] = []
    last, before, left = 0, search.before, search.depth
    texts = {"only_texts": True, "plainly": _plainly(search.text) or _plainly(selection.error)}
    while left > 0:
        values = _walk(selection, before, min(PORTION, left)) | texts
        found, [before] = yield Statement("find", values)
        for job_id, generation, key, error, arguments, _ in found:
            if _has_error(selection, error) and search.fits(key, arguments, error):
                if len(ids) == search.limit:
                    return ids, last
                ids.append(job_id)
                last = generation
        if before is None:
            return ids, None
        left -= PORTION
    return ids, before


def failures(limit: int) -> Steps[list[FailureGroup]]:
    """Errors by their names, the one that happened last first."""
    groups, samples = yield Statement("failures", {"limit": limit, "newest": TASKS_OF})
    return [
        FailureGroup(
            fingerprint=name,
            count=min(count, COUNTED),
            first_seen=instant(first_seen),
            last_seen=instant(last_seen),
            tasks=tuple(sorted(tasks)),
            sample=read_job(sample),
        )
        for (name, count, first_seen, last_seen, tasks), sample in zip(groups, samples, strict=True)
    ]


def all_ids(
    selection: Selection, limit: int | None, *, spares: Sequence[str] = (), before: int | None = None
) -> Steps[list[str]]:
    """The ids of a selection, newest request first, without the queues it spares."""
    if selection.ids and not selection.error and limit is not None and len(selection.ids) <= limit:
        return list(selection.ids)  # whoever acts on them checks the rest
    ids: list[str] = []
    while limit is None or len(ids) < limit:
        values = _walk(selection, before, None, spares) | {
            "only_ids": True,
            "with_error": bool(selection.error),
            "plainly": _plainly(selection.error),
        }
        found, [before] = yield Statement("find", values)
        ids += [job_id for job_id, error in found if _has_error(selection, error)]
        if before is None:
            break
    return ids[:limit]


def _walk(
    selection: Selection, before: int | None, limit: int | None, spares: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "selection": selection_values(selection, spares=spares),
        "before": False if before is None else before,
        "limit": False if limit is None else limit,
    }


def _plainly(text: str | None) -> str | bool:
    """The text, where the server can tell that it is not there without knowing the case of every letter."""
    wanted = legible(text or "").lower()
    return wanted if PLAIN.fullmatch(wanted) else False


def _has_error(selection: Selection, error: str | None) -> bool:
    return not selection.error or legible(selection.error).lower() in (error or "").lower()
