"""The tests' project with every backend of Django Tasks: ours, immediate, in the database, and on RQ."""

from __future__ import annotations

import os
from typing import Any

from tests.django.project import settings as project
from tests.django.project.settings import (
    DATABASES,
    DEFAULT_AUTO_FIELD,
    MIDDLEWARE,
    ROOT_URLCONF,
    SECRET_KEY,
    STATIC_URL,
    TEMPLATES,
    TIME_ZONE,
    USE_TZ,
)

__all__ = [
    "DATABASES", "DEFAULT_AUTO_FIELD", "MIDDLEWARE", "ROOT_URLCONF", "SECRET_KEY", "STATIC_URL", "TEMPLATES",
    "TIME_ZONE", "USE_TZ",
]  # fmt: skip

INSTALLED_APPS = [*project.INSTALLED_APPS, "django_tasks_db", "django_rq"]
REDIS: dict[str, Any] = {"UNIX_SOCKET_PATH": os.environ.get("SITE_REDIS", ""), "DB": 0}
RQ_QUEUES = {"default": REDIS}
TASKS: dict[str, Any] = {
    **project.TASKS,
    "stock": {"BACKEND": "django_tasks.backends.immediate.ImmediateBackend"},
    "database": {"BACKEND": "django_tasks_db.DatabaseBackend"},
    "rq": {"BACKEND": "django_tasks_rq.RQBackend"},
}
DULY: dict[str, Any] = {
    "executions": {"lease": "1s", "lost_after": "500ms", "redeliver_after": "500ms", "interval": "500ms"},
    "schedule_poll": "200ms",
    **project.DULY,
    "lease": "2s",
}
if "SITE_TASKS" in os.environ:
    INSTALLED_APPS.append("tests.django_schedules.programs.extra.ExtraConfig")
ALLOWED_HOSTS = ["*"]
