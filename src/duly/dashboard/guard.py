"""Stands before every route: lets nobody in unknown, nobody act without the right, nothing be cached.

It is one piece of ASGI around the whole site, so that a route added tomorrow is closed too. What is open is
listed here: the login page and the assets, which hold nothing of anybody's.
"""

from __future__ import annotations

import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from duly.dashboard.departures import Departures
from duly.dashboard.door import SESSION, Authenticate, Door, Patience, Role, Session, Visitor
from duly.errors import StoreError
from duly.urls import masked

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
StillWelcome = Callable[[], Awaitable[bool]]

OPEN_PATHS: Final = frozenset({"/login"})
OPEN_FOLDER: Final = "/static/"
LARGEST_BODY: Final = 1_000_000
LARGEST_OF_STRANGERS: Final = 10_000
"""Bytes: a token and where to go, from people who may send it as often as they like."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer a browser would not say where its forms come from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Entrance:
    """How strangers become visitors."""

    door: Door
    authenticate: Authenticate | None
    now: Callable[[], datetime]
    patience: Patience
    departures: Departures
    secure: bool | None = None
    """Whether cookies are for HTTPS only; None goes by each request's own scheme."""

    def cookie_name(self, scope: Scope, name: str) -> str:
        """Under HTTPS with a prefix that no other host and no plain HTTP page can set."""
        return f"__Host-duly-{name}" if self.is_secure(scope) else f"duly-{name}"

    def is_secure(self, scope: Scope) -> bool:
        """Whether the visitor's browser speaks HTTPS."""
        return bool(scope.get("scheme") == "https") if self.secure is None else self.secure

    def set_cookie(
        self, scope: Scope, response: Response, name: str, value: str, *, lasts: timedelta
    ) -> None:
        """For this site alone, out of reach of scripts."""
        response.set_cookie(
            self.cookie_name(scope, name),
            value,
            max_age=int(lasts.total_seconds()),
            path="/",
            secure=self.is_secure(scope),
            httponly=True,
            samesite="lax",
        )


@dataclass(frozen=True, slots=True)
class Guest:
    """What the guard tells the routes of a request."""

    visitor: Visitor | None
    csrf: str
    form: Mapping[str, list[str]]
    session: Session | None = None
    """Of those who signed in here."""


class Known(NamedTuple):
    """Who sends a request, and by what that is known."""

    visitor: Visitor | None
    session: Session | None = None
    by_token: bool = False


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, headers


class Guard:
    """The site, closed."""

    def __init__(self, site: Asgi, entrance: Entrance) -> None:
        self.site = site
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._refuse_other(scope, receive, send)
            return
        answer = _closed(scope, send)
        try:
            receive = await self._admit(scope, receive)
        except Refused as refused:
            await self._turn_away(scope, refused)(scope, receive, answer)
            return
        await self.site(scope, receive, self._with_csrf(scope, answer))

    async def _refuse_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.site(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        """Who it is, whether they may, and whether it is really they who ask; else Refused."""
        headers = Headers(scope=scope)
        cookies = _cookies(headers)
        known = Known(None) if is_asset(scope) else await self._who(scope, headers, cookies)
        csrf = cookies.get(self._entrance.cookie_name(scope, "csrf"), "") or secrets.token_urlsafe(24)
        guest = Guest(known.visitor, csrf, {}, known.session)
        if known.visitor is None and not is_open(scope):
            raise Refused(401, "Sign in first.", **{"www-authenticate": "Bearer"})
        if scope["method"] not in SAFE:
            body = await _whole(receive, LARGEST_BODY if known.visitor else LARGEST_OF_STRANGERS)
            guest = replace(guest, form=_form(headers, body))
            self._check_order(scope, headers, guest, by_token=known.by_token)
            receive = _replayed(body, receive)
        scope["duly.guest"] = guest
        scope["duly.is_welcome"] = self._still(scope, headers, cookies, known)
        return receive

    async def _who(self, scope: Scope, headers: Headers, cookies: Mapping[str, str]) -> Known:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._entrance.door.has_tokens:
            return await self._by_cookies(scope, cookies)
        try:
            return Known(self._by_token(scope, token.strip()), by_token=True)
        except Refused as refused:
            return await self._otherwise(scope, cookies, refused)

    async def _otherwise(self, scope: Scope, cookies: Mapping[str, str], refused: Refused) -> Known:
        """The host's login may have tokens of its own; what it does not know either is a failed try."""
        has_login = self._entrance.authenticate is not None
        known = await self._by_cookies(scope, cookies) if has_login else Known(None)
        if known.visitor is not None:
            return known
        if refused.status == 401:
            self._entrance.patience.note_failure(address_of(scope))
        raise refused

    async def _by_cookies(self, scope: Scope, cookies: Mapping[str, str]) -> Known:
        """By a session of ours, or by what the host's login sees in the request."""
        entrance = self._entrance
        text = cookies.get(entrance.cookie_name(scope, "session"), "")
        session = entrance.door.read_session(text, entrance.now()) if text else None
        if session is not None and not await self._has_left(session):
            return Known(session.visitor, session)
        if entrance.authenticate is None:
            return Known(None)
        found = entrance.authenticate(HTTPConnection(scope))
        return Known(await found if inspect.isawaitable(found) else found)

    async def _has_left(self, session: Session) -> bool:
        try:
            return await run_in_threadpool(self._entrance.departures.has, session)
        except StoreError as error:
            raise Refused(503, masked(str(error))) from error

    def _by_token(self, scope: Scope, token: str) -> Visitor:
        patience, address = self._entrance.patience, address_of(scope)
        if wait := patience.wait(address):
            raise too_many(wait)
        visitor = self._entrance.door.recognise(token)
        if visitor is None:
            raise Refused(401, "This token opens nothing.", **{"www-authenticate": "Bearer"})
        patience.note_success(address)
        return visitor

    def _still(
        self, scope: Scope, headers: Headers, cookies: Mapping[str, str], known: Known
    ) -> StillWelcome:
        """Asked again by what goes on for long, such as the live stream. A token is good while we run."""

        async def ask() -> bool:
            try:
                return known.by_token or (await self._who(scope, headers, cookies)).visitor is not None
            except Refused:
                return False

        return ask

    def _check_order(self, scope: Scope, headers: Headers, guest: Guest, *, by_token: bool) -> None:
        path = inner_path(scope)
        if not by_token:
            _check_origin(headers)
            given = headers.get("x-csrf-token") or guest.form.get("csrf", [""])[0]
            known = _cookies(headers).get(self._entrance.cookie_name(scope, "csrf"), "")
            if not known or not hmac.compare_digest(known.encode(), given.encode()):
                raise Refused(403, "This form is too old or not ours: load the page again.")
        if path in OPEN_PATHS or path == "/logout":
            return
        if guest.visitor is None or not guest.visitor.may_act:
            raise Refused(403, f"Viewers may look, not act: this needs the role {str(Role.OPERATOR)!r}.")

    def _turn_away(self, scope: Scope, refused: Refused) -> Response:
        if inner_path(scope).startswith("/api/"):
            return JSONResponse({"error": refused.words}, refused.status, refused.headers)
        wants_page = (
            scope["method"] in SAFE and refused.status == 401 and "authorization" not in Headers(scope=scope)
        )
        if wants_page and self._entrance.door.has_tokens and inner_path(scope) not in ("/live", "/live.json"):
            back = quote(inner_path(scope) + _query(scope), safe="")
            return RedirectResponse(f"{scope.get('root_path', '')}/login?next={back}", 303)
        return PlainTextResponse(refused.words, refused.status, refused.headers)

    def _with_csrf(self, scope: Scope, send: Send) -> Send:
        """The first page brings the cookie that its forms are compared with."""
        name = self._entrance.cookie_name(scope, "csrf")
        has_one = _cookies(Headers(scope=scope)).get(name)
        if scope["method"] not in SAFE or has_one or is_asset(scope):  # a cache would share it with everybody
            return send
        response = Response()
        self._entrance.set_cookie(scope, response, "csrf", scope["duly.guest"].csrf, lasts=SESSION)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("set-cookie", response.headers["set-cookie"])
            await send(message)

        return sending


def is_open(scope: Scope) -> bool:
    """What strangers may see."""
    return inner_path(scope) in OPEN_PATHS or is_asset(scope)


def is_asset(scope: Scope) -> bool:
    """A file that we ship: the same for everybody."""
    return inner_path(scope).startswith(OPEN_FOLDER)


def inner_path(scope: Scope) -> str:
    """The path below the place the site is mounted at."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def address_of(scope: Scope) -> str:
    """Where a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def too_many(wait: timedelta) -> Refused:
    """For who has failed too often."""
    seconds = max(1, ceil(wait.total_seconds()))
    return Refused(429, f"Too many failed tries: wait {seconds} s.", **{"retry-after": str(seconds)})


def _closed(scope: Scope, send: Send) -> Send:
    """Every answer with the headers that keep a browser from being used against its owner."""
    kept = "public, max-age=3600" if is_asset(scope) else "no-store"  # now: routes change the scope

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers["cache-control"] = kept
        await send(message)

    return sending


def _cookies(headers: Headers) -> dict[str, str]:
    """As browsers send them: one cookie of another application that breaks the rules must not hide ours."""
    return cookie_parser(headers.get("cookie", ""))


def _check_origin(headers: Headers) -> None:
    """Browsers say where a request comes from; another site's is refused whatever it carries.

    Their own word comes first: behind a proxy the host may not be the one that people see.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        is_ours = site in ("same-origin", "none")
    else:
        is_ours = origin is None or urlsplit(origin).netloc == headers.get("host", "")
    if not is_ours:
        raise Refused(403, "This request comes from another site.")


async def _whole(receive: Receive, most: int) -> bytes:
    """The body; Refused if it is too large, or if its sender is gone before its end.

    Half an order must not be taken for a whole one: what is missing may be the filter.
    """
    body = bytearray()  # bytes would be copied as a whole for each part, and a sender may choose tiny ones
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "The request broke off before its end.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise Refused(413, f"No order takes more than {most:,} bytes.")
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return parts.pop() if parts else await receive()

    return again


def _form(headers: Headers, body: bytes) -> dict[str, list[str]]:
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=2000)
    except ValueError:
        raise Refused(400, "This form cannot be read.") from None


def _query(scope: Scope) -> str:
    text = scope.get("query_string", b"").decode("latin-1")
    return f"?{text}" if text else ""
