"""Values to HTML. Everything is escaped: nothing that a job carries is ever taken for markup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duly.cli.words import clipped, counted, last_line, relative, span
from duly.dashboard.guard import Entrance, Guest, inner_path
from duly.dashboard.orders import command
from duly.job import State
from duly.secrecy.calls import is_call

HERE: Final = Path(__file__).parent
SAID: Final = timedelta(minutes=1)
"""How long a message waits for the next page."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page knows of the site."""

    name: str
    environment: str
    store: str


class Renderer:
    """Makes pages."""

    def __init__(self, frame: Frame, entrance: Entrance) -> None:
        self._frame = frame
        self._entrance = entrance
        self._templates = environment()

    def page(self, request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
        """One page, for this visitor."""
        guest: Guest = request.scope["duly.guest"]
        name = self._entrance.cookie_name(request.scope, "said")
        said = unquote(request.cookies.get(name, ""))
        text = self._templates.get_template(template).render(
            root=request.scope.get("root_path", ""),
            here=inner_path(request.scope),
            address=_address(request),
            visitor=guest.visitor,
            may_act=guest.visitor is not None and guest.visitor.may_act,
            csrf=guest.csrf,
            frame=self._frame,
            theme=_theme(request),
            version=request.scope.get("duly.version", ""),
            said=said,
            has_tokens=self._entrance.door.has_tokens,
            **{"now": self._entrance.now(), **values},
        )
        response = HTMLResponse(text, status)
        if said:
            secure = self._entrance.is_secure(
                request.scope
            )  # else browsers would not touch a `__Host-` cookie
            response.delete_cookie(name, path="/", secure=secure, httponly=True)
        return response

    def back(self, request: Request, path: str, said: str = "") -> Response:
        """To another page of the site, with a message for it."""
        root = request.scope.get("root_path", "")
        response = RedirectResponse(root + local(path), 303)
        if said:
            self._entrance.set_cookie(request.scope, response, "said", quote(said[:800], safe=""), lasts=SAID)
        return response


def local(path: str) -> str:
    """A path of this site, or its first page: an address from a form must not lead elsewhere."""
    is_plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    is_plain = is_plain and ".." not in unquote(path.partition("?")[0]).split("/")
    return quote(path, safe="/?&=%+,:@~.-_") if is_plain else "/"


def _address(request: Request) -> str:
    query = request.scope.get("query_string", b"").decode("latin-1")
    return inner_path(request.scope) + (f"?{query}" if query else "")


def _theme(request: Request) -> str:
    chosen = request.cookies.get("duly-theme", "")
    return chosen if chosen in ("light", "dark") else ""


@cache
def environment() -> Environment:
    """The templates and the words they may use."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = found.filters
    filters.update(
        clipped=clipped,
        counted=counted,
        last_line=last_line,
        span=span,
        pretty=pretty,
        call_lines=call_lines,
        ago=ago,
        exact=exact,
        number="{:,}".format,
        short_name=short_name,
        query=query,
    )
    cast(dict[str, Any], found.globals).update(
        states=[str(state) for state in State], asset=asset, command=command
    )
    return found


def ago(moment: datetime | None, now: datetime) -> Markup:
    """A moment as people feel it, with the exact one behind it; scripts keep it going."""
    if moment is None:
        return Markup('<span class="none">-</span>')
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.astimezone(UTC).isoformat(), exact(moment), relative(moment, now)
    )


def exact(moment: datetime | None) -> str:
    """To the millisecond, in UTC."""
    if moment is None:
        return ""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def short_name(task: str) -> str:
    """A task by its last part, which is what people call it."""
    return task.rpartition(".")[2] or task


def call_lines(call: Any) -> str:
    """A call as people read it: one argument per line, by position or by name."""
    if not is_call(call):
        return str(call)
    positional, named = cast(tuple[list[Any], dict[str, Any]], call)
    parts = [pretty(value) for value in positional]
    parts += [f"{name} = {pretty(value)}" for name, value in named.items()]
    return "\n".join(parts) or "none"


def pretty(value: Any) -> str:
    """JSON as people read it; short lists stay on one line."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= 88 else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def query(values: Mapping[str, Any]) -> str:
    """`?a=1&b=2` of what is given."""
    return "?" + urlencode({name: value for name, value in values.items() if value not in ("", None)})


@cache
def asset(name: str) -> str:
    """An asset's path with its fingerprint, so that a new version is never an old one from a cache."""
    digest = sha256((HERE / "static" / name).read_bytes()).hexdigest()[:10]
    return f"/static/{name}?v={digest}"
