"""One database, one backend; where they are comes from the environment."""

from __future__ import annotations

import os

SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "duly.django", "tests.integrations.celery_site"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(os.environ["SITE_FOLDER"], "site.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
CELERY_BROKER_URL = os.environ["SITE_BROKER"]
CELERY_RESULT_BACKEND = os.environ["SITE_BROKER"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
TASKS = {
    "default": {
        "BACKEND": "duly.integrations.celery.CeleryBackend",
        "QUEUES": ["default", "io"],
        "OPTIONS": {"celery": "tests.integrations.celery_site.celery.app"},
    }
}
DULY = {"executions": {"lease": "2s"}}
