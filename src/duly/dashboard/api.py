"""The JSON API: the same looks and orders as the pages, from one table that also describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duly.bulk import VERBS, Outcome
from duly.cli.documents import job_row
from duly.cli.words import stamp
from duly.dashboard.bodies import Body, check_query, checked
from duly.dashboard.calendar import Calendar
from duly.dashboard.deeds import moment, name_of, preview_of
from duly.dashboard.desk import Desk
from duly.dashboard.filters import Filters
from duly.dashboard.looks import LARGEST_PAGE, Looks, filters_of, given
from duly.dashboard.openapi import (
    BOUNDED,
    COUNT,
    FILTERS,
    LATER,
    LIST,
    MOMENT,
    NAME,
    NUMBER,
    OBJECT,
    TERMS,
    TEXT,
    Endpoint,
    Schema,
    describe,
)
from duly.dashboard.orders import Instruction, Orders

ORDER: Final[Schema] = {"type": "string", "enum": list(VERBS)}
LANE: Final[Mapping[str, Schema]] = {
    "scope": {"type": "string", "enum": ["task", "queue"]},
    "name": {**BOUNDED, "minLength": 1},
    "reason": BOUNDED,
}
DONE: Final[Mapping[str, Schema]] = {"done": {"type": "boolean"}}
OUTCOME: Final[Mapping[str, Schema]] = {"changed": COUNT, "refused": OBJECT, "refusals": COUNT}


class Api:
    """The operations."""

    def __init__(self, desk: Desk, calendar: Calendar, orders: Orders) -> None:
        self._desk = desk
        self._looks = Looks(desk, calendar)
        self._orders = orders

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
        return [*self._looks.endpoints(), *self._job_orders(), *self._lane_orders(), *self._schedule_orders()]

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
            summary="How many jobs an order by filter would reach, or at least so many.",
            query={"order": ORDER, **FILTERS, "text": BOUNDED},
            needed=["order"],
            answer=self._preview,
            gives={
                "count": COUNT,
                "is_exact": {"type": "boolean"},
                "newest": COUNT,
                "seen_at": MOMENT,
                "sample": LIST,
                "command": TEXT,
            },
        )
        yield Endpoint(
            method="POST",
            path="/api/orders/matching",
            summary="An order to what a preview showed; `newest` and `seen_at` are the preview's.",
            body={
                "order": ORDER,
                **FILTERS,
                "text": BOUNDED,
                "newest": NUMBER,
                "seen_at": MOMENT,
                "after": LATER,
            },
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

    # orders

    def _order_jobs(self, request: Request, body: Body) -> Any:
        given = self._orders.give(body["order"], body["ids"], by=name_of(request), at=self._moment(body))
        return _outcome(given)

    def _preview(self, request: Request, body: Body) -> Any:
        query = request.query_params
        shown = self._orders.preview(
            given(query, "order"), filters_of(request), query.get("text", "").strip()
        )
        preview = shown.preview
        return {
            "count": preview.count,
            "is_exact": preview.is_exact,
            "newest": preview.newest,
            "seen_at": stamp(preview.seen_at),
            "sample": [job_row(job) for job in preview.sample],
            "command": shown.command,
        }

    def _order_matching(self, request: Request, body: Body) -> Any:
        newest, seen_at = preview_of(str(int(body["newest"])), body["seen_at"])
        pairs = [
            (name, one)
            for name in FILTERS
            for one in (body.get(name, []) if isinstance(body.get(name, []), list) else [body[name]])
        ]
        asked = Instruction(
            verb=body["order"],
            filters=Filters.read(pairs),
            newest=newest,
            seen_at=seen_at,
            by=name_of(request),
            text=body.get("text", "").strip(),
            at=self._moment(body),
        )
        return _outcome(self._orders.give_all(asked))

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


def _served(endpoint: Endpoint) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        check_query(endpoint, request.query_params.multi_items())
        body: Body = {} if endpoint.body is None else checked(endpoint, await request.body())
        return JSONResponse(await run_in_threadpool(endpoint.answer, request, body))

    return serve


def _acting(act: Callable[[str, str], object]) -> Callable[[Request, Body], Any]:
    def answer(request: Request, body: Body) -> Any:
        act(body["name"], name_of(request))
        return {"done": True}

    return answer


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {"changed": outcome.changed, "refused": outcome.refused, "refusals": outcome.refusals}
