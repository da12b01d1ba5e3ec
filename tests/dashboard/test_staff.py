"""Under Django's login: staff look, those with the permission act, others see nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for this test",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "duly.django",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import Permission, User
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from starlette.testclient import TestClient

from duly import Duly
from duly.dashboard import asgi
from duly.dashboard.staff import staff

call_command("migrate", verbosity=0)
app = Duly("memory://")


@app.task
def greet() -> None: ...


job = greet.enqueue()


def status_of(user, path="/", method="GET"):
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    client = TestClient(asgi(app, authenticate=staff), follow_redirects=False)
    cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}; duly-csrf=same"
    headers = {"cookie": cookie, "x-csrf-token": "same"}
    return client.request(method, path, headers=headers).status_code


def person(name, *permissions, **options):
    user = User.objects.create_user(name, **{"is_staff": True, **options})
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return User.objects.get(pk=user.pk)


viewer = person("vera", "view_job")
operator = person("ada", "change_job")
clerk = person("carl")
customer = person("cara", "change_job", is_staff=False)
gone = person("gil", "change_job", is_active=False)
cancel = f"/jobs/{job.id}/cancel"

print([status_of(user) for user in (viewer, operator, clerk, customer, gone)])
print([status_of(user, cancel, "POST") for user in (viewer, operator, customer)])
print(TestClient(asgi(app, authenticate=staff)).get("/").status_code)
print(app.jobs.get(job.id).state, [deed.by for deed in app.audit.list()])
"""


def test_staff_look_and_act_by_their_permissions(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "[200, 200, 401, 401, 401]",
        "[403, 303, 401]",
        "401",
        "cancelled ['ada']",
    ]
