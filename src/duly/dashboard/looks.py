"""The looks of the JSON API, as documents with the keys of `duly … --json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Required, TypedDict

from starlette.requests import Request

from duly.cli.documents import job_document, job_row, worker_row
from duly.cli.reconcile import reaction_row
from duly.cli.schedules import row as schedule_row
from duly.cli.status import document as status_document
from duly.cli.words import stamp
from duly.dashboard.bodies import Body
from duly.dashboard.calendar import Calendar, Forecast, Tick
from duly.dashboard.charts import point_row
from duly.dashboard.desk import PAGE, Desk, JobPage
from duly.dashboard.filters import Filters
from duly.dashboard.openapi import BOUNDED, FILTERS, LIST, NAME, NUMBER, OBJECT, TERMS, TEXT, Endpoint, Schema
from duly.dashboard.pages import whole
from duly.errors import BadRequest
from duly.stores.reports import FailureGroup

LARGEST_PAGE: Final = 500
NEXT: Final[Schema] = {
    "type": ["integer", "null"],
    "description": "To be given as `before` to go on; null where nothing is further back. "
    "One look reaches only so far: a page may be short, or empty, and still have one.",
}
PAGING: Final[Mapping[str, Schema]] = {
    "before": NUMBER,
    "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE},
}


class Look(TypedDict, total=False):
    """What a look is called, takes and gives."""

    summary: Required[str]
    gives: Required[Mapping[str, Schema]]
    query: Mapping[str, Schema]
    needed: Sequence[str]


LOOKS: Final[Mapping[str, Look]] = {
    "/api/summary": {
        "summary": "Counts by state, queue and task; workers; what is held; alarms.",
        "gives": {"jobs": OBJECT, **dict.fromkeys(("queues", "tasks", "workers", "held", "alarms"), LIST)},
    },
    "/api/jobs": {
        "summary": "Jobs, newest first; `before` continues after a page, which may be short.",
        "query": {**FILTERS, **PAGING},
        "gives": {"jobs": LIST, "before": NEXT},
    },
    "/api/jobs/{id}": {
        "summary": "One job with its history, and every condition of its claim.",
        "gives": {"job": OBJECT, "conditions": LIST, "conclusion": TEXT},
    },
    "/api/workers": {"summary": "Who works.", "gives": {"workers": LIST}},
    "/api/schedules": {"summary": "What runs by itself.", "gives": {"schedules": LIST}},
    "/api/forecast": {
        "summary": "The next ticks of a schedule, by its own terms or by others; nothing is changed.",
        "query": {**NAME, **TERMS},
        "needed": ["name"],
        "gives": {"ticks": LIST, "around_change": LIST, "overlaps": {"type": "boolean"}},
    },
    "/api/reactions": {"summary": "What follows tables.", "gives": {"reactions": LIST}},
    "/api/pulse": {
        "summary": "Runs of the last hour by the minute: how they ended, how long they waited and took.",
        "query": {"task": BOUNDED, "queue": BOUNDED},
        "gives": {"points": LIST},
    },
    "/api/search": {
        "summary": "Jobs with a text in key, arguments or error; a page may be short, `before` goes on.",
        "query": {"text": {**BOUNDED, "minLength": 1}, **FILTERS, "before": NUMBER},
        "needed": ["text"],
        "gives": {"jobs": LIST, "before": NEXT},
    },
    "/api/failures": {
        "summary": "Failures by cause; `fingerprint` is a filter of jobs.",
        "gives": {"failures": LIST},
    },
    "/api/audit": {
        "summary": "Who ordered what, newest first; `before` continues after a page.",
        "query": {"before": NUMBER},
        "gives": {"audit": LIST},
    },
}


class Looks:
    """What programs may ask."""

    def __init__(self, desk: Desk, calendar: Calendar) -> None:
        self._desk = desk
        self._calendar = calendar

    def endpoints(self) -> Iterable[Endpoint]:
        """The part of the table that only reads."""
        answers: dict[str, Callable[[Request, Body], Any]] = {
            "/api/summary": self._summary,
            "/api/jobs": self._jobs,
            "/api/jobs/{id}": self._job,
            "/api/workers": self._workers,
            "/api/schedules": self._schedules,
            "/api/forecast": self._forecast,
            "/api/reactions": self._reactions,
            "/api/pulse": self._pulse,
            "/api/search": self._search,
            "/api/failures": self._failures,
            "/api/audit": self._audit,
        }
        return [
            Endpoint(method="GET", path=path, answer=answer, **LOOKS[path])
            for path, answer in answers.items()
        ]

    def _summary(self, request: Request, body: Body) -> Any:
        summary = self._desk.whole_summary()
        alarms = [
            {"check": one.check, "level": str(one.level), "found": one.found, "remedy": one.remedy}
            for one in summary.alarms
        ]
        return {**status_document(summary.seen), "alarms": alarms}

    def _jobs(self, request: Request, body: Body) -> Any:
        query = request.query_params
        limit = whole(query.get("limit"), "limit")
        limit = PAGE if limit is None else limit
        if not 1 <= limit <= LARGEST_PAGE:
            raise BadRequest(f"limit={limit} is not between 1 and {LARGEST_PAGE}.")
        found = self._desk.jobs(filters_of(request), before=whole(query.get("before"), "before"), limit=limit)
        return _page(found)

    def _job(self, request: Request, body: Body) -> Any:
        view = self._desk.job(request.path_params["id"])
        document = job_document(view.job, view.call)
        conditions = [
            {"condition": name, "holds": holds, "explanation": words}
            for name, holds, words in view.conditions
        ]
        shown = {**document, "context": view.context, "progress": view.progress}
        return {"job": shown, "conditions": conditions, "conclusion": view.sentence}

    def _workers(self, request: Request, body: Body) -> Any:
        seen = self._desk.summary().seen
        return {"workers": [worker_row(card, at, is_live=live) for card, at, live in seen.workers]}

    def _schedules(self, request: Request, body: Body) -> Any:
        rows = self._calendar.rows(with_outcomes=False)
        return {
            "schedules": [
                {**schedule_row(row.view, knows_code=True), "next_tick": stamp(row.next_tick)} for row in rows
            ]
        }

    def _forecast(self, request: Request, body: Body) -> Any:
        query = request.query_params
        changes = {name: query[name] for name in TERMS if query.get(name)}
        found: Forecast = self._calendar.foretell(given(query, "name"), changes)
        return {
            "ticks": [_tick(tick) for tick in found.ticks],
            "change": stamp(found.change),
            "around_change": [_tick(tick) for tick in found.around],
            "overlaps": found.overlaps,
        }

    def _reactions(self, request: Request, body: Body) -> Any:
        return {"reactions": [reaction_row(view) for view in self._desk.reactions()]}

    def _pulse(self, request: Request, body: Body) -> Any:
        query = request.query_params
        return {
            "points": [
                point_row(point) for point in self._desk.pulse(query.get("task", ""), query.get("queue", ""))
            ]
        }

    def _search(self, request: Request, body: Body) -> Any:
        query = request.query_params
        text, before = given(query, "text"), whole(query.get("before"), "before")
        return _page(self._desk.search(text, filters_of(request), before=before))

    def _failures(self, request: Request, body: Body) -> Any:
        return {"failures": [_failure(group) for group in self._desk.failures()]}

    def _audit(self, request: Request, body: Body) -> Any:
        deeds = self._desk.audit(before=whole(request.query_params.get("before"), "before"))
        return {"audit": [{**asdict(deed), "at": stamp(deed.at)} for deed in deeds]}


def filters_of(request: Request) -> Filters:
    """The filters in an address."""
    return Filters.read(request.query_params.multi_items())


def given(query: Mapping[str, str], name: str) -> str:
    """A part of the address that cannot be missing."""
    if not query.get(name):
        raise BadRequest(f"Say {name}=… in the address.")
    return query[name]


def _failure(group: FailureGroup) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "count": group.count,
        "first_seen": stamp(group.first_seen),
        "last_seen": stamp(group.last_seen),
        "tasks": list(group.tasks),
        "sample": job_row(group.sample),
    }


def _page(found: JobPage) -> dict[str, Any]:
    rows = [{**job_row(job), "call": call} for job, call in zip(found.jobs, found.calls, strict=True)]
    return {"jobs": rows, "before": found.before}


def _tick(tick: Tick) -> dict[str, Any]:
    return {
        "at": stamp(tick.at),
        "local": tick.local.isoformat(),
        "note": tick.note,
        "others": list(tick.others),
    }
