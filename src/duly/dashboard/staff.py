"""Django's login as the dashboard's: staff who may view jobs may look, and who may change them may act.

For `asgi(app, authenticate=staff)` beside a Django project: the session cookie of the admin is read here, so
that nobody signs in twice.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from duly.dashboard.door import Role, Visitor

VIEW: Final = "duly.view_job"
CHANGE: Final = "duly.change_job"
"""The permissions of the jobs in the admin, so that both doors are for the same people."""


async def staff(request: HTTPConnection) -> Visitor | None:
    """Active staff by their permissions for jobs: to view, or to change; None for others."""
    return await run_in_threadpool(_visitor, dict(request.cookies))


def _visitor(cookies: dict[str, str]) -> Visitor | None:
    from django.conf import settings

    from django import db

    tidy = cast(Callable[[], None], db.close_old_connections)  # pyright: ignore[reportUnknownMemberType]
    key = cookies.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    tidy()  # no request of Django's own looks after this thread's connections
    try:
        user = _user(key)
        role = _role(user) if user.is_authenticated and user.is_active and user.is_staff else None
        return None if role is None else Visitor(str(user.get_username()), role)
    finally:
        tidy()


def _role(user: Any) -> Role | None:
    if user.has_perm(CHANGE):
        return Role.OPERATOR
    return Role.VIEWER if user.has_perm(VIEW) else None


def _user(key: str) -> Any:
    from django.conf import settings
    from django.contrib import auth
    from django.http import HttpRequest

    request: Any = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user: Any = auth.get_user(request)  # pyright: ignore[reportUnknownMemberType]
    return user
