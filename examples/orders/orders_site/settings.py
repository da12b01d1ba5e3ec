"""Settings. What differs between machines comes from the environment:

ORDERS_DATABASE   sqlite:///orders.sqlite3 (here), or postgresql://… in production
ORDERS_QUEUE      duly (jobs in that database), redis://… (Duly on Redis), celery
ORDERS_BROKER     Celery's broker
ORDERS_CLOUD_URL  the cloud that knows about leases
ORDERS_LEASE      how long a dead worker's jobs wait
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

HERE = Path(__file__).parents[1]

SECRET_KEY = os.environ.get("ORDERS_SECRET_KEY", "an example has no secrets")
DEBUG = os.environ.get("ORDERS_DEBUG") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "orders_site.urls"
STATIC_URL = "/static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "duly.django",
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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


def database(url: str) -> dict[str, Any]:
    """A database of Django's from a URL."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": HERE / unquote(parts.path[1:]),
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
        }
    words = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": words.get("host", parts.hostname or ""),
        "PORT": words.get("port", str(parts.port or "")),
    }


DATABASES = {"default": database(os.environ.get("ORDERS_DATABASE", "sqlite:///orders.sqlite3"))}

ORDERS_QUEUE = os.environ.get("ORDERS_QUEUE", "duly")
DULY: dict[str, Any] = {"lease": os.environ.get("ORDERS_LEASE", "30s")}

TASKS: dict[str, Any]
if ORDERS_QUEUE == "celery":
    CELERY_BROKER_URL = os.environ.get("ORDERS_BROKER", "redis://localhost/0")
    CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
    TASKS = {
        "default": {
            "BACKEND": "duly.integrations.celery.CeleryBackend",
            "OPTIONS": {"celery": "orders_site.celery.app"},
        }
    }
elif ORDERS_QUEUE == "duly":
    TASKS = {"default": {"BACKEND": "duly.django.DulyBackend"}}
else:
    TASKS = {"default": {"BACKEND": "duly.django.DulyBackend", "OPTIONS": {"url": ORDERS_QUEUE}}}

ORDERS_CLOUD_URL = os.environ.get("ORDERS_CLOUD_URL", "http://127.0.0.1:8099")
ORDERS_CLOUD_TIMEOUT = float(os.environ.get("ORDERS_CLOUD_TIMEOUT", "20"))

ORDERS_TASK_SOFT_TIME_LIMIT = float(os.environ.get("ORDERS_TASK_SOFT_TIME_LIMIT", "90"))
ORDERS_TASK_TIME_LIMIT = float(os.environ.get("ORDERS_TASK_TIME_LIMIT", "120"))
ORDERS_TASK_DEDUP_TTL = float(os.environ.get("ORDERS_TASK_DEDUP_TTL", "120"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"orders": {"handlers": ["console"], "level": "INFO", "propagate": False}},
}
