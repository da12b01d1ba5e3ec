"""`app.schedules`: what runs by itself, and an operator's hand on it.

Two records per schedule: its terms, written by the code that defines it, and an overlay, written by
operators. A deploy rewrites only the first, `reset` removes only the second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from duly.audit import Audit
from duly.clock import Clock
from duly.converse import Conversation, aconverse, converse
from duly.errors import DefinitionError, UnknownSchedule
from duly.handle import Handle
from duly.ids import new_id
from duly.job import Clash, Job, Keep, Request, State
from duly.jobs import JobList
from duly.kinds import periodic
from duly.kinds.periodic import Schedule, Terms
from duly.stores.contract import Page, Placed, Postpone, Scope, Selection, Store, Switch

T = TypeVar("T")

TERMS: Final = "schedule"
OVERLAY: Final = "schedule overlay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule as it stands."""

    name: str
    task: str
    terms: Mapping[str, Any]
    """In force: the code's, overlaid with the operator's."""
    overlay: Mapping[str, Any]
    is_paused: bool
    is_known: bool
    """False when it left the code: it is parked until the code comes back."""
    last_tick: datetime | None
    next_look: datetime | None
    """When it will put its next tick, or look whether one is due."""


Views = list[ScheduleView]
Switches = list[Switch]
"""Named, because inside `Schedules` the word `list` is a method."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What schedules ask of the application."""

    store: Callable[[], Store]
    clock: Clock
    known: Mapping[str, Terms]
    """The code's schedules by name."""
    tick_request: Callable[[Schedule, datetime], Request]
    handle: Callable[[Schedule, Request, Placed], Handle[Any]]
    pack_arguments: Callable[[str, Any, Any], str]
    """Task name, args and kwargs to packed text, checked against the task's signature."""


class Schedules:
    """Every method has an async twin with a leading `a`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._audit = Audit(desk.store)

    def list(self) -> Views:
        """All schedules the store or the code knows, by name."""
        return self._hold(self._list())

    async def alist(self) -> Views:
        """The async twin of list."""
        return await self._ahold(self._list())

    def pause(self, name: str, *, by: str = "") -> None:
        """Put no ticks until resumed; what was missed then falls under the schedule's `missed`."""
        self._hold(self._pause(name, by))

    async def apause(self, name: str, *, by: str = "") -> None:
        """The async twin of pause."""
        await self._ahold(self._pause(name, by))

    def resume(self, name: str, *, by: str = "") -> None:
        """Go on, applying `missed` to the ticks of the pause."""
        self._hold(self._resume(name, by))

    async def aresume(self, name: str, *, by: str = "") -> None:
        """The async twin of resume."""
        await self._ahold(self._resume(name, by))

    def trigger(self, name: str, *, by: str = "") -> Handle[Any]:
        """Run it once now, beside its timetable, by its overlap rule."""
        return self._hold(self._trigger(name, by))

    async def atrigger(self, name: str, *, by: str = "") -> Handle[Any]:
        """The async twin of trigger."""
        return await self._ahold(self._trigger(name, by))

    def edit(self, name: str, /, *, by: str = "", **changes: Any) -> ScheduleView:
        """Overlay the code's terms; survives deploys. No tick is lost or doubled at the edit."""
        return self._hold(self._edit(name, changes, by))

    async def aedit(self, name: str, /, *, by: str = "", **changes: Any) -> ScheduleView:
        """The async twin of edit."""
        return await self._ahold(self._edit(name, changes, by))

    def reset(self, name: str, *, by: str = "") -> ScheduleView:
        """Remove the overlay: the code's terms are in force again."""
        return self._hold(self._reset(name, by))

    async def areset(self, name: str, *, by: str = "") -> ScheduleView:
        """The async twin of reset."""
        return await self._ahold(self._reset(name, by))

    def _hold(self, conversation: Conversation[T]) -> T:
        return converse(self._desk.store(), conversation)

    async def _ahold(self, conversation: Conversation[T]) -> T:
        return await aconverse(self._desk.store(), conversation)

    # conversations

    def _list(self) -> Conversation[Views]:
        store = self._desk.store()
        stored: dict[str, str] = yield store.records(TERMS)
        overlays: dict[str, str] = yield store.records(OVERLAY)
        switches: Switches = yield store.switches()
        names = sorted({*stored, *self._desk.known})
        jobs: JobList = []
        for name in names:  # each by its key: a list of few among a million jobs reads them all
            jobs += yield store.find(Selection(tasks=(periodic.job_task(name),), key=name), Page(1))
        held = {switch.name for switch in switches if switch.scope is Scope.TASK}
        return [self._view(name, stored, overlays, held, jobs) for name in names]

    def _view(
        self, name: str, stored: dict[str, str], overlays: dict[str, str], held: set[str], jobs: JobList
    ) -> ScheduleView:
        terms = json.loads(stored[name]) if name in stored else dict(self._desk.known[name])
        overlay = json.loads(overlays.get(name, "{}"))
        lane = periodic.job_task(name)
        job = next((job for job in jobs if job.task == lane), None)
        merged = merge(terms, overlay)
        return ScheduleView(
            name=name,
            task=merged["task"],
            terms=merged,
            overlay=overlay,
            is_paused=lane in held or merged["task"] in held,
            is_known=name in self._desk.known,
            last_tick=periodic.unpack_last_tick(job.arguments) if job else None,
            next_look=_next_look(job),
        )

    def _one(self, name: str) -> Conversation[ScheduleView]:
        views = yield from self._list()
        for view in views:
            if view.name == name:
                return view
        raise UnknownSchedule(name, [view.name for view in views])

    def _pause(self, name: str, by: str) -> Conversation[None]:
        view = yield from self._one(name)
        yield from self._audit.note("pause", {"schedule": name}, by)
        yield self._desk.store().hold(Switch(Scope.TASK, periodic.job_task(view.name), None))

    def _resume(self, name: str, by: str) -> Conversation[None]:
        view = yield from self._one(name)
        yield from self._audit.note("resume", {"schedule": name}, by)
        yield self._desk.store().free(Scope.TASK, periodic.job_task(view.name))
        self._desk.store().ring()

    def _trigger(self, name: str, by: str) -> Conversation[Handle[Any]]:
        view = yield from self._one(name)
        schedule = replace(periodic.read_terms(name, view.terms), jitter=timedelta(0))  # now means now
        request = replace(self._desk.tick_request(schedule, self._desk.clock.now()), run_after=None)
        yield from self._audit.note("trigger", {"schedule": name}, by)
        placed: Sequence[Placed] = yield self._desk.store().put([request])
        self._desk.store().ring()
        return self._desk.handle(schedule, request, placed[0])

    def _edit(self, name: str, changes: Mapping[str, Any], by: str) -> Conversation[ScheduleView]:
        view = yield from self._one(name)
        overlay = {**view.overlay, **self._plain(view, changes)}
        periodic.read_terms(name, merge(view.terms, overlay))
        # What was changed, not into what: arguments may be secrets.
        yield from self._audit.note("edit", {"schedule": name, "changes": sorted(changes)}, by)
        yield self._desk.store().record(OVERLAY, name, json.dumps(overlay))
        yield from self._look_again(name)
        return (yield from self._one(name))

    def _reset(self, name: str, by: str) -> Conversation[ScheduleView]:
        yield from self._one(name)
        yield from self._audit.note("reset", {"schedule": name}, by)
        yield self._desk.store().record(OVERLAY, name, None)
        yield from self._look_again(name)
        return (yield from self._one(name))

    def _look_again(self, name: str) -> Conversation[None]:
        """The schedule's job looks at its clock again at once, also if it is running just now."""
        lane = Selection(tasks=(periodic.job_task(name),), key=name)
        yield self._desk.store().amend(lane, Postpone())
        self._desk.store().ring()

    def _plain(self, view: ScheduleView, changes: Mapping[str, Any]) -> Terms:
        terms = dict(changes)
        if "args" in terms or "kwargs" in terms:
            args, kwargs = terms.pop("args", ()), terms.pop("kwargs", {})
            terms["arguments"] = self._desk.pack_arguments(view.task, args, kwargs)
        unknown = set(terms) - periodic.EDITABLE
        if unknown:
            raise DefinitionError(
                f"A schedule's {sorted(unknown)[0]!r} cannot be edited. Editable: "
                f"{', '.join(sorted(periodic.EDITABLE - {'arguments'}))}, args, kwargs."
            )
        return plain_terms(terms)


def _next_look(job: Job | None) -> datetime | None:
    """A job on loan is looking just now: what its row says then is the end of its lease."""
    if job is None:
        return None
    return job.due if job.state is State.RUNNING else job.ready_at


def merge(terms: Mapping[str, Any], overlay: Mapping[str, Any]) -> Terms:
    """The operator's terms over the code's; saying cron takes every away, and the other way round."""
    merged = {**terms, **overlay}
    if overlay.get("cron") is not None:
        merged["every"] = None
    elif overlay.get("every") is not None:
        merged["cron"] = None
    return merged


def plain_terms(terms: Mapping[str, Any]) -> Terms:
    """Datetimes and durations as JSON carries them."""
    return {name: _plain_value(value) for name, value in terms.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.total_seconds() if hasattr(value, "total_seconds") else value


def register(store: Store, known: Mapping[str, Terms]) -> Conversation[None]:
    """Bring the code's schedules to the store: new terms take effect at once, overlays stay."""
    stored: dict[str, str] = yield store.records(TERMS)
    for name, terms in known.items():
        text = json.dumps(terms, sort_keys=True)
        if stored.get(name) != text:
            yield store.record(TERMS, name, text)
            if name in stored:
                yield store.amend(Selection(tasks=(periodic.job_task(name),), key=name), Postpone())
    if known:
        yield store.put([seed(name) for name in known])


def seed(name: str) -> Request:
    """The schedule's own job, put only if it is not there."""
    return Request(
        id=new_id(),
        task=periodic.job_task(name),
        queue=periodic.QUEUE,
        priority=100,
        key=name,
        arguments=periodic.NEVER_TICKED,
        clash=Clash.SEED,
        keep=Keep(),
    )
