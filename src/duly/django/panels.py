"""What the admin's pages show of the engine, as plain rows: no request, no template.

Each panel knows its columns, its filters and what can be done to a row; `doors.py` puts it on a page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from duly import codec
from duly.app import App
from duly.django import compat, scheduling
from duly.django.discretion import call_shown, job_shown, wish_shown
from duly.django.engines import database_engine, engine, is_ours
from duly.django.executions import main_database
from duly.django.scheduling import TICK, furnish
from duly.errors import UnknownJob, UnknownSchedule
from duly.job import Job, State
from duly.jobs import Acted
from duly.kinds import periodic
from duly.schedules import ScheduleView
from duly.stores.contract import Attendance

PAGE: Final = 100
FIRST_LINE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a page was asked for."""

    search: str = ""
    filters: Mapping[str, str] = field(default_factory=dict[str, str])
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a list: its id, and a cell for each column."""

    id: str
    cells: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of a list; `older` continues it."""

    rows: Sequence[Row]
    older: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """All about one row."""

    fields: Sequence[tuple[str, Any]]
    error: str = ""
    history_columns: Sequence[str] = ()
    history: Sequence[Sequence[Any]] = ()


class Panel(Protocol):
    """What a page is made of."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def actions(self) -> Mapping[str, str]:
        """What can be done to rows: a word, and how a person says it."""
        ...

    def choices(self) -> Mapping[str, Sequence[str]]:
        """The filters, and what each may be."""
        ...

    def listing(self, ask: Ask) -> Listing: ...
    def details(self, row_id: str) -> Details | None: ...
    def act(self, action: str, ids: Sequence[str], by: str) -> Acted: ...


def engines() -> dict[str, App]:
    """Every engine of the project once, by the alias of its backend; that of the schedules besides."""
    found: dict[str, App] = {}
    tasks: dict[str, dict[str, Any]] = getattr(compat.settings, "TASKS", None) or {}
    for alias, words in tasks.items():
        if is_ours(words.get("BACKEND", "")) and engine(alias) not in found.values():
            found[alias] = engine(alias)
    if database_engine() not in found.values():
        found["schedules"] = database_engine()
    return found


class JobPanel:
    """Jobs of all engines."""

    columns = ("task", "state", "key", "queue", "ready at", "attempt", "error", "created at")
    actions: Mapping[str, str] = {"retry": "Retry selected jobs", "cancel": "Cancel selected jobs"}

    def choices(self) -> Mapping[str, Sequence[str]]:
        """Tasks and queues are those that there is work of."""
        found = [entry for app in engines().values() for entry in app.store.run(app.store.census()).jobs]
        names = {"engine": sorted(engines())} if len(engines()) > 1 else {}
        return {
            **names,
            "state": [str(state) for state in State],
            "task": sorted({entry[0] for entry in found if entry[1] != periodic.QUEUE}),
            "queue": sorted({entry[1] for entry in found if entry[1] != periodic.QUEUE}),
        }

    def listing(self, ask: Ask) -> Listing:
        """Newest first. A search is for an id, a task, a key, or a part of an error."""
        app = self._engine(ask.filters.get("engine"))
        filters: dict[str, Any] = {word: text for word, text in ask.filters.items() if word != "engine"}
        jobs = (
            app.jobs.list(limit=PAGE, before=ask.before, **filters) if not ask.search else _search(app, ask)
        )
        older = jobs[-1].generation if len(jobs) == PAGE and not ask.search else None
        return Listing(rows=[_job_row(job_shown(app, job)) for job in jobs], older=older)

    def details(self, row_id: str) -> Details | None:
        """With its history and its whole error."""
        found = _find_job(row_id)
        return None if found is None else _job_details(*found)

    def act(self, action: str, ids: Sequence[str], by: str) -> Acted:
        """On whichever engine has the job."""
        done = Acted([], {})
        for one in ids:
            found = _find_job(one)
            if found is None:
                done.refused[one] = "it is not there any more"
                continue
            jobs = found[0].jobs
            answer = jobs.retry(one, by=by) if action == "retry" else jobs.cancel(one, by=by)
            done.changed.extend(answer.changed)
            done.refused.update(answer.refused)
        return done

    def _engine(self, name: str | None) -> App:
        known = engines()
        return known[name] if name in known else next(iter(known.values()))


def _search(app: App, ask: Ask) -> list[Job]:
    filters = {word: text for word, text in ask.filters.items() if word != "engine"}
    found: dict[str, Job] = {}
    own = _find_job(ask.search)
    if own is not None:
        found[own[1].id] = own[1]
    for word in ("task", "key", "error"):
        wanted: dict[str, Any] = {**filters, word: ask.search}
        for job in app.jobs.list(limit=PAGE, **wanted):
            found.setdefault(job.id, job)
    return sorted(found.values(), key=lambda job: job.generation, reverse=True)[:PAGE]


def _find_job(job_id: str) -> tuple[App, Job] | None:
    for app in engines().values():
        try:
            return app, app.jobs.get(job_id)
        except UnknownJob:
            continue
    return None


def _job_row(job: Job) -> Row:
    error = (job.error or job.reason or "").strip().splitlines()
    cells = (job.task, job.state, job.key or "", job.queue, job.ready_at, job.attempt,
             error[-1][:FIRST_LINE] if error else "", job.created_at)  # fmt: skip
    return Row(id=job.id, cells=cells)


def _job_details(app: App, job: Job) -> Details:
    plain = ("id", "task", "queue", "priority", "key", "state", "reason", "ready_at", "due", "created_at",
             "finished_at", "attempt", "crashes", "deferrals", "generation", "epoch", "worker", "delivery",
             "result", "progress", "tick", "expires_at")  # fmt: skip
    arguments, job = call_shown(app, job), job_shown(app, job)
    fields = [("arguments", arguments), *((name, getattr(job, name)) for name in plain)]
    history = [
        (line.at, line.event, line.attempt, line.epoch, line.worker, line.started_at, line.note)
        for line in job.history
    ]
    return Details(
        fields=[(name.replace("_", " "), value) for name, value in fields if value not in (None, "")],
        error=job.error or "",
        history_columns=("at", "event", "attempt", "epoch", "worker", "started at", "note"),
        history=history,
    )


class SchedulePanel:
    """Schedules of code and database, and an operator's hand on them."""

    columns = ("task", "when", "time zone", "from", "paused", "last tick", "next look")
    actions: Mapping[str, str] = {
        "pause": "Pause selected schedules",
        "resume": "Resume selected schedules",
        "run_now": "Run selected schedules now",
    }

    def choices(self) -> Mapping[str, Sequence[str]]:
        """Where it comes from, and whether it is paused."""
        return {"from": ("code", "database", "nowhere"), "paused": ("yes", "no")}

    def listing(self, ask: Ask) -> Listing:
        """All there are: schedules are few."""
        rows = [_schedule_row(view) for view in self._app().schedules.list()]
        kept = [row for row in rows if _matches(row, ask, self.columns)]
        return Listing(rows=kept)

    def details(self, row_id: str) -> Details | None:
        """Its terms in force, and what an operator changed."""
        view = next((view for view in self._app().schedules.list() if view.name == row_id), None)
        if view is None:
            return None
        wish = _wish(view)
        terms = [
            (name, value) for name, value in sorted(view.terms.items()) if name not in ("arguments", "task")
        ]
        shown = [
            ("name", view.name),
            *((word, value) for word, value in wish.items() if word not in ("args", "kwargs")),
            ("arguments", wish_shown(wish)),
            *terms,
            ("last tick", view.last_tick),
            ("next look", view.next_look),
        ]
        return Details(
            fields=[*shown, ("paused", _yes(view.is_paused)), ("edited", json.dumps(dict(view.overlay)))]
        )

    def act(self, action: str, ids: Sequence[str], by: str) -> Acted:
        """A run now is one execution more, beside the timetable."""
        schedules = self._app().schedules
        orders: dict[str, Callable[..., Any]] = {
            "pause": schedules.pause,
            "resume": schedules.resume,
            "run_now": schedules.trigger,
        }
        done = Acted([], {})
        for name in ids:
            try:
                orders[action](name, by=by)
                done.changed.append(name)
            except UnknownSchedule as error:
                done.refused[name] = str(error)
        return done

    def _app(self) -> App:
        app = database_engine()
        furnish(app)
        return app


def _schedule_row(view: ScheduleView) -> Row:
    wish = _wish(view)
    when = view.terms.get("cron") or f"every {view.terms.get('every')} s"
    cells = (wish.get("task", view.task), when, view.terms.get("timezone", "UTC"), _origin(view.name),
             _yes(view.is_paused), view.last_tick, view.next_look)  # fmt: skip
    return Row(id=view.name, cells=cells)


def _wish(view: ScheduleView) -> dict[str, Any]:
    """What a tick hands over; nothing for a schedule that is not one of ours."""
    if view.task != TICK:
        return {}
    (found,), _ = codec.unpack(view.terms["arguments"])
    return dict(found)


def _origin(name: str) -> str:
    from duly.django.models import DatabaseSchedule

    if name in scheduling.registry:
        return "code"
    return (
        "database"
        if DatabaseSchedule.objects.using(main_database()).filter(name=name).exists()
        else "nowhere"
    )


class WorkerPanel:
    """Workers and schedulers that have not said good-bye."""

    columns = ("host", "process", "alive", "started at", "seen at", "queues", "slots", "version")
    actions: Mapping[str, str] = {}

    def choices(self) -> Mapping[str, Sequence[str]]:
        """Whether it was heard of within its lease."""
        return {"alive": ("yes", "no")}

    def listing(self, ask: Ask) -> Listing:
        """Of all engines."""
        rows = [_worker_row(one) for one in self._all()]
        return Listing(rows=[row for row in rows if _matches(row, ask, self.columns)])

    def details(self, row_id: str) -> Details | None:
        """With the tasks it knows."""
        found = next((one for one in self._all() if one.card.id == row_id), None)
        if found is None:
            return None
        cells = zip(self.columns, _worker_row(found).cells, strict=True)
        return Details(fields=[("name", found.card.name), *cells, ("tasks", ", ".join(found.card.tasks))])

    def act(self, action: str, ids: Sequence[str], by: str) -> Acted:
        """Nothing: a worker is stopped where it runs."""
        return Acted([], dict.fromkeys(ids, "a worker is stopped where it runs"))

    def _all(self) -> list[Attendance]:
        return [one for app in engines().values() for one in app.store.run(app.store.workers())]


def _worker_row(one: Attendance) -> Row:
    card = one.card
    queues = ", ".join(card.queues) or "all"
    cells = (card.host, card.pid, _yes(one.has_lease), card.started_at, one.seen_at, queues, card.slots,
             card.version)  # fmt: skip
    return Row(id=card.id, cells=cells)


def _matches(row: Row, ask: Ask, columns: Sequence[str]) -> bool:
    by_name = dict(zip(columns, row.cells, strict=True))
    if any(str(by_name.get(word)) != text for word, text in ask.filters.items()):
        return False
    return not ask.search or any(ask.search.lower() in str(cell).lower() for cell in (row.id, *row.cells))


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
