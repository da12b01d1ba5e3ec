"""The JSON API: the same looks and orders as the pages, as documents with the keys of `duly … --json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duly.cli.documents import job_document, job_row, worker_row
from duly.cli.reconcile import reaction_row
from duly.cli.schedules import row as schedule_row
from duly.cli.status import document as status_document
from duly.cli.words import stamp
from duly.dashboard.bodies import Body, checked
from duly.dashboard.calendar import Calendar, Forecast, Tick
from duly.dashboard.deeds import moment, name_of, preview_of
from duly.dashboard.desk import PAGE, Desk
from duly.dashboard.filters import Filters
from duly.dashboard.live import Live
from duly.dashboard.openapi import (
    BOUNDED,
    COUNT,
    FILTERS,
    LATER,
    LIST,
    MOMENT,
    NUMBER,
    OBJECT,
    TEXT,
    Endpoint,
    Schema,
    describe,
)
from duly.dashboard.orders import VERBS, Orders, Outcome
from duly.dashboard.pages import whole
from duly.errors import BadRequest
from duly.stores.reports import FailureGroup

LARGEST_PAGE: Final = 500
ORDER: Final[Schema] = {"type": "string", "enum": list(VERBS)}
LANE: Final[Mapping[str, Schema]] = {
    "scope": {"type": "string", "enum": ["task", "queue"]},
    "name": {**BOUNDED, "minLength": 1},
    "reason": BOUNDED,
}
NAME: Final[Mapping[str, Schema]] = {"name": {**BOUNDED, "minLength": 1}}
DONE: Final[Mapping[str, Schema]] = {"done": {"type": "boolean"}}
OUTCOME: Final[Mapping[str, Schema]] = {"changed": COUNT, "refused": OBJECT}
TERMS: Final[Mapping[str, Schema]] = {"cron": BOUNDED, "every": BOUNDED, "timezone": BOUNDED}


class Api:
    """The operations."""

    def __init__(self, desk: Desk, calendar: Calendar, orders: Orders, live: Live) -> None:
        self._desk = desk
        self._calendar = calendar
        self._orders = orders
        self._live = live

    def routes(self) -> list[Route]:
        """As Starlette takes them."""
        endpoints = self.endpoints()

        def description(request: Request) -> Response:
            return JSONResponse(describe(endpoints, request.scope.get("root_path", "")))

        return [
            Route("/api/openapi.json", description),
            *(Route(one.path, _served(one), methods=[one.method]) for one in endpoints),
        ]

    def endpoints(self) -> list[Endpoint]:
        """The table that routes and description are made from."""
        return [*self._looks(), *self._job_orders(), *self._lane_orders(), *self._schedule_orders()]

    def _looks(self) -> Iterable[Endpoint]:
        paging = {"before": NUMBER, "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}}
        yield Endpoint(
            method="GET",
            path="/api/summary",
            summary="Counts by state, queue and task; workers; what is held; alarms.",
            answer=self._summary,
            gives={
                "jobs": OBJECT,
                "queues": LIST,
                "tasks": LIST,
                "workers": LIST,
                "held": LIST,
                "alarms": LIST,
            },
        )
        yield Endpoint(
            method="GET",
            path="/api/jobs",
            summary="Jobs, newest first; `before` continues after a page.",
            query={**FILTERS, **paging},
            answer=self._jobs,
            gives={"jobs": LIST, "before": {"type": ["integer", "null"]}},
        )
        yield Endpoint(
            method="GET",
            path="/api/jobs/{id}",
            summary="One job with its history, and every condition of its claim.",
            answer=self._job,
            gives={"job": OBJECT, "conditions": LIST, "conclusion": TEXT},
        )
        yield Endpoint(
            method="GET",
            path="/api/workers",
            summary="Who works.",
            answer=self._workers,
            gives={"workers": LIST},
        )
        yield Endpoint(
            method="GET",
            path="/api/schedules",
            summary="What runs by itself.",
            answer=self._schedules,
            gives={"schedules": LIST},
        )
        yield Endpoint(
            method="GET",
            path="/api/forecast",
            summary="The next ticks of a schedule, by its own terms or by others; nothing is changed.",
            query={**NAME, **TERMS},
            needed=["name"],
            answer=self._forecast,
            gives={"ticks": LIST, "around_change": LIST, "overlaps": {"type": "boolean"}},
        )
        yield Endpoint(
            method="GET",
            path="/api/reactions",
            summary="What follows tables.",
            answer=self._reactions,
            gives={"reactions": LIST},
        )
        yield Endpoint(
            method="GET",
            path="/api/failures",
            summary="Failures by cause; `fingerprint` is a filter of jobs.",
            answer=self._failures,
            gives={"failures": LIST},
        )
        yield Endpoint(
            method="GET",
            path="/api/audit",
            summary="Who ordered what, newest first; `before` continues after a page.",
            query={"before": NUMBER},
            answer=self._audit,
            gives={"audit": LIST},
        )

    def _job_orders(self) -> Iterable[Endpoint]:
        yield Endpoint(
            method="POST",
            path="/api/orders/jobs",
            summary="Retry, cancel or postpone jobs by id.",
            body={
                "order": ORDER,
                "ids": {"type": "array", "items": BOUNDED, "minItems": 1, "maxItems": LARGEST_PAGE},
                "after": LATER,
            },
            needed=["order", "ids"],
            answer=self._order_jobs,
            gives=OUTCOME,
        )
        yield Endpoint(
            method="GET",
            path="/api/preview",
            summary="How many jobs an order by filter would reach.",
            query={"order": ORDER, **FILTERS},
            needed=["order"],
            answer=self._preview,
            gives={"count": COUNT, "newest": COUNT, "seen_at": MOMENT, "sample": LIST, "command": TEXT},
        )
        yield Endpoint(
            method="POST",
            path="/api/orders/matching",
            summary="An order to what a preview showed; `newest` and `seen_at` are the preview's.",
            body={"order": ORDER, **FILTERS, "newest": NUMBER, "seen_at": MOMENT, "after": LATER},
            needed=["order", "newest", "seen_at"],
            answer=self._order_matching,
            gives=OUTCOME,
        )

    def _lane_orders(self) -> Iterable[Endpoint]:
        for order, act in (("pause", self._pause), ("resume", self._resume)):
            yield Endpoint(
                method="POST",
                path=f"/api/orders/{order}",
                summary=f"{order.capitalize()} a task or a queue.",
                body=LANE,
                needed=["scope", "name"],
                answer=act,
                gives=DONE,
            )
        yield Endpoint(
            method="POST",
            path="/api/orders/reconcile",
            summary="Have workers look at every row a task follows.",
            body=NAME,
            needed=["name"],
            answer=self._reconcile,
            gives=DONE,
        )

    def _schedule_orders(self) -> Iterable[Endpoint]:
        orders: dict[str, Callable[[str, str], object]] = {
            "pause": lambda name, by: self._orders.pause_schedule(name, by=by),
            "resume": lambda name, by: self._orders.resume_schedule(name, by=by),
            "reset": lambda name, by: self._orders.reset_schedule(name, by=by),
        }
        for order, act in orders.items():
            yield Endpoint(
                method="POST",
                path=f"/api/orders/schedule/{order}",
                summary=f"{order.capitalize()} a schedule.",
                body=NAME,
                needed=["name"],
                answer=_acting(act),
                gives=DONE,
            )
        yield Endpoint(
            method="POST",
            path="/api/orders/schedule/trigger",
            summary="Run a schedule once now.",
            body=NAME,
            needed=["name"],
            answer=self._trigger,
            gives={"id": TEXT, "decision": TEXT},
        )
        yield Endpoint(
            method="POST",
            path="/api/orders/schedule/edit",
            summary="Give a schedule other terms, until they are reset.",
            body={**NAME, **TERMS},
            needed=["name"],
            answer=self._edit,
            gives=DONE,
        )

    # looks

    def _summary(self, request: Request, body: Body) -> Any:
        summary = self._desk.summary()
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
        rows = [{**job_row(job), "call": call} for job, call in zip(found.jobs, found.calls, strict=True)]
        return {"jobs": rows, "before": found.before}

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
        rows = self._calendar.rows()
        return {
            "schedules": [
                {**schedule_row(row.view, knows_code=True), "next_tick": stamp(row.next_tick)} for row in rows
            ]
        }

    def _forecast(self, request: Request, body: Body) -> Any:
        query = request.query_params
        changes = {name: query[name] for name in TERMS if query.get(name)}
        found: Forecast = self._calendar.foretell(_given(query, "name"), changes)
        return {
            "ticks": [_tick(tick) for tick in found.ticks],
            "change": stamp(found.change),
            "around_change": [_tick(tick) for tick in found.around],
            "overlaps": found.overlaps,
        }

    def _reactions(self, request: Request, body: Body) -> Any:
        return {"reactions": [reaction_row(view) for view in self._desk.reactions()]}

    def _failures(self, request: Request, body: Body) -> Any:
        return {"failures": [_failure(group) for group in self._desk.failures()]}

    def _audit(self, request: Request, body: Body) -> Any:
        deeds = self._desk.audit(before=whole(request.query_params.get("before"), "before"))
        return {"audit": [{**asdict(deed), "at": stamp(deed.at)} for deed in deeds]}

    # orders

    def _order_jobs(self, request: Request, body: Body) -> Any:
        given = self._orders.give(body["order"], body["ids"], by=name_of(request), at=self._moment(body))
        return _outcome(given)

    def _preview(self, request: Request, body: Body) -> Any:
        preview = self._orders.preview(_given(request.query_params, "order"), filters_of(request))
        return {
            "count": preview.count,
            "newest": preview.newest,
            "seen_at": stamp(preview.seen_at),
            "sample": [job_row(job) for job in preview.sample],
            "command": preview.command,
        }

    def _order_matching(self, request: Request, body: Body) -> Any:
        newest, seen_at = preview_of(str(body["newest"]), body["seen_at"])
        pairs = [
            (name, one)
            for name in FILTERS
            for one in (body.get(name, []) if isinstance(body.get(name, []), list) else [body[name]])
        ]
        filters = Filters.read(pairs)
        at = self._moment(body)
        return _outcome(
            self._orders.give_all(
                body["order"], filters, newest=newest, seen_at=seen_at, by=name_of(request), at=at
            )
        )

    def _pause(self, request: Request, body: Body) -> Any:
        self._orders.pause(body["scope"], body["name"], by=name_of(request), reason=body.get("reason", ""))
        return {"done": True}

    def _resume(self, request: Request, body: Body) -> Any:
        return {"done": self._orders.resume(body["scope"], body["name"], by=name_of(request))}

    def _reconcile(self, request: Request, body: Body) -> Any:
        self._orders.reconcile(body["name"], by=name_of(request))
        return {"done": True}

    def _trigger(self, request: Request, body: Body) -> Any:
        handle = self._orders.trigger(body["name"], by=name_of(request))
        return {"id": handle.id, "decision": str(handle.decision)}

    def _edit(self, request: Request, body: Body) -> Any:
        changes = {name: body[name] for name in TERMS if body.get(name)}
        self._orders.edit_schedule(body["name"], changes, by=name_of(request))
        return {"done": True}

    def _moment(self, body: Body) -> datetime | None:
        return moment(body.get("after", ""), self._desk.now())


def filters_of(request: Request) -> Filters:
    """The filters in an address."""
    return Filters.read(request.query_params.multi_items())


def _served(endpoint: Endpoint) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        body: Body = {} if endpoint.body is None else checked(endpoint, await request.body())
        return JSONResponse(await run_in_threadpool(endpoint.answer, request, body))

    return serve


def _acting(act: Callable[[str, str], object]) -> Callable[[Request, Body], Any]:
    def answer(request: Request, body: Body) -> Any:
        act(body["name"], name_of(request))
        return {"done": True}

    return answer


def _given(query: Mapping[str, str], name: str) -> str:
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


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {"changed": outcome.changed, "refused": outcome.refused}


def _tick(tick: Tick) -> dict[str, Any]:
    return {
        "at": stamp(tick.at),
        "local": tick.local.isoformat(),
        "note": tick.note,
        "others": list(tick.others),
    }
