"""For teams that stay on Celery: ORDERS_QUEUE=celery celery -A orders_site.celery worker."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orders_site.settings")

app = Celery("orders")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
