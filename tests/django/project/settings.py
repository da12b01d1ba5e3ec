"""Settings of the tests' Django project; what differs between tests comes from the environment.

DULY_SITE_FOLDER holds the SQLite files; DULY_SITE_DATABASES, _TASKS and _DULY replace settings, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["DULY_SITE_FOLDER"])
SECRET_KEY = "only for tests"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.django.project.urls"
STATIC_URL = "/static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "duly.django",
    "tests.django.project.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _sqlite(name: str) -> dict[str, Any]:
    # Writers wait for their turn instead of failing when they read first.
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(FOLDER / f"{name}.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


DATABASES: dict[str, Any] = json.loads(os.environ.get("DULY_SITE_DATABASES", "null")) or {
    "default": _sqlite("default"),
    "other": _sqlite("other"),
}
TASKS: dict[str, Any] = json.loads(os.environ.get("DULY_SITE_TASKS", "null")) or {
    "default": {"BACKEND": "duly.django.DulyBackend", "QUEUES": ["default", "io"]},
    "other": {"BACKEND": "duly.django.DulyBackend", "OPTIONS": {"database": "other"}},
    "immediate": {"BACKEND": "duly.django.ImmediateBackend"},
    "dummy": {"BACKEND": "duly.django.DummyBackend"},
}
DULY: dict[str, Any] = json.loads(os.environ.get("DULY_SITE_DULY", "null")) or {"lease": "10s"}

if "DULY_SITE_IMPORT" in os.environ:  # a file that a test changes, to see the reloader at work
    importlib.import_module(os.environ["DULY_SITE_IMPORT"])
