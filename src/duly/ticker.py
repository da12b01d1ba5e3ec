"""A schedule's turn: from its claim to the settlement that puts its ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from duly.job import Claim, Overlap, Request
from duly.kinds import periodic
from duly.kinds.periodic import Schedule
from duly.lifecycle import Again, Release
from duly.stores.contract import Settlement
from duly.task import Task, build_request
from duly.wishes import Wishes

DORMANT = timedelta(days=36500)
"""A schedule whose end has passed keeps its job, so that an edit can wake it."""

RECHECK = timedelta(seconds=1)
"""How often a fixed-delay schedule looks whether its run has ended."""


WRONG_CLOCK = timedelta(days=1)

UNREADABLE = timedelta(seconds=10)
"""When a schedule is offered again that this worker's code cannot serve: another's may."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a fixed-delay schedule."""

    is_live: bool = False
    ended_at: datetime | None = None


def tick_request(task: Task[..., Any, Any], schedule: Schedule, tick: datetime) -> Request:
    """One invocation: its key names the instant, its serial the schedule."""
    request = build_request(task, Wishes(key=periodic.tick_key(schedule.name, tick)), schedule.arguments)
    overlap = periodic.tick_overlap(schedule)
    return _as_tick(request, schedule, tick, overlap)


def _as_tick(request: Request, schedule: Schedule, tick: datetime, overlap: Overlap) -> Request:
    return replace(
        request,
        serial=periodic.tick_serial(schedule.name),
        run_after=periodic.jittered(schedule, tick),
        overlap=overlap,
        per_key=0 if overlap is Overlap.ALLOW else 1,
        guard=None,
        tick=tick,
        perpetual=False,
    )


def believable(last_tick: datetime, now: datetime) -> datetime:
    """A tick long after now was put under a clock that was wrong and has been set right since."""
    return now if last_tick > now + WRONG_CLOCK else last_tick


def take_turn(
    claim: Claim,
    schedule: Schedule | None,
    tasks: Mapping[str, Task[..., Any, Any]],
    now: datetime,
    last: LastRun,
) -> Settlement:
    """What a claimed schedule job settles with; `now` is the clock of the store that found it due."""
    task = tasks.get(schedule.task) if schedule else None
    if schedule is None or task is None:
        return Settlement(claim.fence, Release(UNREADABLE, "its terms or its task are not known here"))
    last_tick = believable(periodic.unpack_last_tick(claim.arguments) or claim.due, now)
    if schedule.counts_from_end:
        if last.is_live:
            return Settlement(claim.fence, Again(after=RECHECK))
        plan = periodic.plan_after_end(schedule, last_tick, last.ended_at, now)
    else:
        plan = periodic.plan(schedule, last_tick, now)
    return Settlement(
        claim.fence,
        Again(at=plan.next_at or now + DORMANT),
        then=tuple(tick_request(task, schedule, tick) for tick in plan.due),
        arguments=periodic.pack_last_tick(plan.last_tick),
    )
