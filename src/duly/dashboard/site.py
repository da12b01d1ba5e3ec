"""The site: every address and what stands behind it, closed by the guard as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from duly.bulk import Impossible
from duly.cli.redaction import Redaction
from duly.dashboard.api import Api
from duly.dashboard.calendar import Calendar
from duly.dashboard.deeds import Deeds, form_of, guest_of, one
from duly.dashboard.departures import Departures
from duly.dashboard.desk import Desk
from duly.dashboard.door import SESSION, Authenticate, Door, Patience
from duly.dashboard.guard import Asgi, Entrance, Guard, address_of, inner_path, too_many
from duly.dashboard.live import Live
from duly.dashboard.orders import Orders
from duly.dashboard.pages import Pages
from duly.dashboard.rendering import HERE, Frame, Renderer
from duly.errors import (
    BadRequest,
    DefinitionError,
    DulyError,
    StoreError,
    UnknownJob,
    UnknownSchedule,
    UnknownTask,
)
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App

Page = Callable[[Request], Response]

ASKED_EVERY: Final = 5
"""Beats of the live stream: the host's login may ask a database."""


def asgi(
    app: App,
    *,
    token: str | None = None,
    viewer_token: str | None = None,
    authenticate: Authenticate | None = None,
    environment: str = "",
    title: str = "Duly",
    redact: Iterable[str] = (),
    secure_cookies: bool | None = None,
) -> Asgi:
    """The dashboard of an application, to be served or mounted; closed to who has no token or login.

    `token` lets operators in, `viewer_token` those who may only look; `authenticate(request)` asks the host
    application's login for a `Visitor`. `redact` names arguments that nobody may see, besides a task's own.
    """
    door = Door(token=token, viewer_token=viewer_token)
    if not door.has_tokens and authenticate is None:
        raise DefinitionError(
            "A dashboard is open to nobody: give asgi() a token='…', or authenticate=… to ask your own login."
        )
    now = app.clock.now
    entrance = Entrance(door, authenticate, now, Patience(now), Departures(app), secure_cookies)
    return Guard(_site(app, entrance, Frame(title, environment, masked(app.settings.url)), redact), entrance)


def _site(app: App, entrance: Entrance, frame: Frame, redact: Iterable[str]) -> Starlette:
    desk = Desk(app, Redaction(app, redact))
    orders, calendar, live = Orders(app, desk), Calendar(app, desk.redaction), Live(desk)
    render = Renderer(frame, entrance)
    pages = Pages(desk, calendar, orders, live, render)
    deeds = Deeds(orders, render, desk.now)
    watched = _watched(live)
    routes = [
        Route("/", watched(pages.overview)),
        Route("/jobs", watched(pages.jobs)),
        Route("/jobs/{id}", watched(pages.job)),
        Route("/bulk", pages.bulk, methods=["GET"]),
        Route("/bulk/{number:int}", pages.order, methods=["GET"]),
        Route("/schedules", watched(pages.schedules)),
        Route("/schedule", watched(pages.schedule)),
        Route("/workers", watched(pages.workers)),
        Route("/reactions", watched(pages.reactions)),
        Route("/failures", watched(pages.failures)),
        Route("/audit", watched(pages.audit)),
        Route("/orders/selected", deeds.selected, methods=["POST"]),
        Route("/orders/bulk", deeds.bulk, methods=["POST"]),
        Route("/orders/lane", deeds.lane, methods=["POST"]),
        Route("/orders/schedule", deeds.schedule, methods=["POST"]),
        Route("/orders/reaction", deeds.reaction, methods=["POST"]),
        Route("/jobs/{id}/{order}", deeds.job, methods=["POST"]),
        Route("/live", _stream(live)),
        Route("/live.json", _poll(live)),
        *_entrance_routes(entrance, render),
        *Api(desk, calendar, orders).routes(),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    handlers = {DulyError: _error_page(render), HTTPException: _error_page(render)}
    return Starlette(routes=routes, exception_handlers=handlers)


def _watched(live: Live) -> Callable[[Page], Page]:
    """Pages that are told when they are outdated: what the browser compares with is read before they are."""

    def around(page: Page) -> Page:
        def answer(request: Request) -> Response:
            request.scope["duly.version"] = live.version()
            return page(request)

        return answer

    return around


def _stream(live: Live) -> Callable[[Request], Awaitable[Response]]:
    async def stream(request: Request) -> Response:
        if live.is_full:
            return PlainTextResponse("Too many watch already: poll /live.json instead.", 503)
        return StreamingResponse(live.stream(gone(request)), media_type="text/event-stream")

    return stream


def gone(request: Request) -> Callable[[], Awaitable[bool]]:
    """Whether a watcher has left, or was shown the door: a stream outlives the request that was let in."""
    beats = count(1)

    async def is_gone() -> bool:
        if await request.is_disconnected():
            return True
        return next(beats) % ASKED_EVERY == 0 and not await request.scope["duly.is_welcome"]()

    return is_gone


def _poll(live: Live) -> Callable[[Request], Response]:
    def poll(request: Request) -> Response:
        return JSONResponse(live.everything())

    return poll


# coming and going


def _entrance_routes(entrance: Entrance, render: Renderer) -> list[Route]:
    def login(request: Request) -> Response:
        return render.page(request, "login.html", next=request.query_params.get("next", "/"), refusal="")

    async def enter(request: Request) -> Response:
        form, address = form_of(request), address_of(request.scope)
        back = one(form, "next") or "/"
        if wait := entrance.patience.wait(address):
            refused = too_many(wait)
            page = render.page(request, "login.html", 429, next=back, refusal=refused.words)
            page.headers.update(refused.headers)
            return page
        visitor = entrance.door.recognise(one(form, "token"))
        if visitor is None:
            entrance.patience.note_failure(address)
            return render.page(request, "login.html", 401, next=back, refusal="This token opens nothing.")
        entrance.patience.note_success(address)
        response = render.back(request, back)
        session = entrance.door.open_session(visitor, entrance.now())
        entrance.set_cookie(request.scope, response, "session", session, lasts=SESSION)
        return response

    async def leave(request: Request) -> Response:
        if session := guest_of(request).session:
            await run_in_threadpool(entrance.departures.note, session)
        response = render.back(request, "/login")
        for name in ("session", "csrf"):
            cookie = entrance.cookie_name(request.scope, name)
            response.delete_cookie(cookie, path="/", secure=entrance.is_secure(request.scope), httponly=True)
        return response

    return [
        Route("/login", login, methods=["GET"]),
        Route("/login", enter, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


# what goes wrong


def status_of(error: Exception) -> int:
    """An error as HTTP says it."""
    match error:
        case HTTPException():
            return error.status_code
        case UnknownJob() | UnknownSchedule() | UnknownTask():
            return 404
        case Impossible() | DefinitionError():
            return 409
        case BadRequest():
            return 400
        case StoreError():
            return 503
        case _:
            return 500


def _error_page(render: Renderer) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        status = status_of(error)
        words = error.detail if isinstance(error, HTTPException) else masked(str(error))
        headers = error.headers if isinstance(error, HTTPException) else None
        if inner_path(request.scope).startswith("/api/"):
            return JSONResponse({"error": words}, status, headers)
        return render.page(request, "error.html", status, status=status, words=words)

    return answer
