"""A web page that shows what happens and lets people act on it.

`duly dashboard module:app` serves it; `asgi(app, token=…)` makes it part of another ASGI application.
"""

from __future__ import annotations

from duly.errors import MissingExtra

try:
    from duly.dashboard.door import Role, Visitor
    from duly.dashboard.site import asgi
except ModuleNotFoundError as error:  # pragma: no cover - the tests have the extra
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "jinja2", "markupsafe"):
        raise
    raise MissingExtra("The dashboard", "dashboard") from error

__all__ = ["Role", "Visitor", "asgi"]
