"""The pages: each asks the desk and hands what it said to a template."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from duly.bulk import VERBS
from duly.dashboard.calendar import Calendar, arguments_of, outcome_counts, shown_terms
from duly.dashboard.desk import PAGE, Desk, last_run
from duly.dashboard.filters import LONGEST, Filters
from duly.dashboard.live import Live, drain
from duly.dashboard.orders import Orders, command
from duly.dashboard.rendering import Renderer
from duly.errors import BadRequest
from duly.stores.reports import COUNTED

LARGEST: Final = 10**18
"""Larger numbers no store has, nor takes."""
JOB_ID: Final = re.compile("[0-9a-f]{32}")


class Pages:
    """What may be looked at."""

    def __init__(self, desk: Desk, calendar: Calendar, orders: Orders, live: Live, render: Renderer) -> None:
        self._desk = desk
        self._calendar = calendar
        self._orders = orders
        self._live = live
        self._render = render

    def overview(self, request: Request) -> Response:
        """How it goes."""
        self._live.look()
        summary = self._desk.summary()
        return self._render.page(
            request,
            "overview.html",
            summary=summary,
            holds=self._desk.holds(),
            drain=drain(list(self._live.samples)),
        )

    def jobs(self, request: Request) -> Response:
        """A page of jobs, by filter."""
        filters = Filters.read(request.query_params.multi_items())
        before = whole(request.query_params.get("before"), "before")
        text = text_of(request)
        if not text:
            found = self._desk.jobs(filters, before=before)
        elif JOB_ID.fullmatch(text) and self._desk.app.look_up(text) is not None:
            return self._render.back(request, f"/jobs/{text}")
        else:
            found = self._desk.search(text, filters, before=before)
        return self._render.page(
            request,
            "jobs.html",
            found=found,
            filters=filters,
            text=text,
            summary=self._desk.summary(),
            verbs=VERBS,
            is_first=before is None,
        )

    def job(self, request: Request) -> Response:
        """One job."""
        view = self._desk.job(request.path_params["id"])
        return self._render.page(
            request,
            "job.html",
            view=view,
            verbs=VERBS,
            last_run=last_run,
            retry=_retry_words(self._desk, view.job.task),
        )

    def bulk(self, request: Request) -> Response:
        """What an order by filter would reach."""
        filters = Filters.read(request.query_params.multi_items())
        shown = self._orders.preview(request.query_params.get("order", ""), filters, text_of(request))
        calls = [self._desk.redaction.call_text(job) for job in shown.preview.sample]
        return self._render.page(
            request, "bulk.html", shown=shown, preview=shown.preview, filters=filters, calls=calls
        )

    def order(self, request: Request) -> Response:
        """How far an order to many is."""
        query = request.query_params
        number: int = request.path_params["number"]
        advance = self._orders.advance(number) if number < LARGEST else None
        if advance is None:
            raise HTTPException(404, "There is no such order to many. The audit has those of 90 days.")
        return self._render.page(
            request,
            "order.html",
            advance=advance,
            outcome=advance.outcome,
            expected=whole(query.get("expected"), "expected"),
            filters=Filters.read(query.multi_items()),
            text=text_of(request),
        )

    def schedules(self, request: Request) -> Response:
        """What runs by itself."""
        return self._render.page(
            request, "schedules.html", rows=self._calendar.rows(), outcome_counts=outcome_counts
        )

    def schedule(self, request: Request) -> Response:
        """One schedule, and what it would do by other terms."""
        name = request.query_params.get("name", "")
        tried = {
            term: request.query_params[term]
            for term in ("cron", "every", "timezone")
            if request.query_params.get(term)
        }
        row = self._calendar.row(name)
        refusal, forecast = "", None
        try:
            forecast = self._calendar.foretell(name, tried)
        except (BadRequest, ValueError) as error:
            refusal = str(error)
        return self._render.page(
            request,
            "schedule.html",
            row=row,
            tried=tried,
            forecast=forecast,
            refusal=refusal,
            terms=shown_terms(row.view),
            arguments=self._desk.redaction.arguments(row.view.task, arguments_of(row.view)),
            edit_command=command("reschedule", name, *(f"--{term}={value}" for term, value in tried.items())),
        )

    def workers(self, request: Request) -> Response:
        """Who works."""
        return self._render.page(request, "workers.html", summary=self._desk.summary())

    def reactions(self, request: Request) -> Response:
        """What follows tables."""
        return self._render.page(request, "reactions.html", rows=self._desk.reactions())

    def failures(self, request: Request) -> Response:
        """What goes wrong, by cause."""
        groups = self._desk.failures()
        calls = [self._desk.redaction.call_text(group.sample) for group in groups]
        return self._render.page(request, "failures.html", groups=groups, calls=calls, counted_up_to=COUNTED)

    def audit(self, request: Request) -> Response:
        """Who ordered what."""
        before = whole(request.query_params.get("before"), "before")
        deeds = self._desk.audit(before=before)
        following = deeds[-1].number if len(deeds) == PAGE else None
        return self._render.page(
            request, "audit.html", deeds=deeds, verbs=VERBS, before=following, is_first=before is None
        )


def text_of(request: Request) -> str:
    """What is searched for."""
    return request.query_params.get("text", "").strip()[:LONGEST]


def whole(text: str | None, name: str) -> int | None:
    """A number from an address."""
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequest(f"{name}={text[:40]!r} is not a whole number.")
    return int(text)


def _retry_words(desk: Desk, task: str) -> Any:
    known = desk.app.tasks.get(task)
    return None if known is None else known.options.retry
